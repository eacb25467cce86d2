#!/usr/bin/env bash
# arrays, defaults that the environment may replace, a file that is sourced
set -euo pipefail
source ./cluster_settings.sh
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
SEQ_LENGTH=${SEQ_LENGTH:-32768}
GBS=${GBS:-256}
MODEL_ARGS=(
    --num-layers 80          # Llama 3 70B
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention
    --num-query-groups 8
    --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights
    --position-embedding-type rope
    --max-position-embeddings 131072
    --vocab-size 128256
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size "${GBS}"
    --seq-length "$SEQ_LENGTH"
    --bf16
    --attention-dropout 0.0 --hidden-dropout 0.0
)
if [[ -n "${RECOMPUTE:-}" ]]; then
    TRAINING_ARGS+=(--recompute-granularity full --recompute-method uniform --recompute-num-layers 1)
else
    TRAINING_ARGS+=(--recompute-activations)
fi
PARALLEL_ARGS=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --context-parallel-size 2
    --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel)
PARALLEL_ARGS+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
torchrun --nproc-per-node "$GPUS_PER_NODE" --nnodes "$NNODES" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${TRAINING_ARGS[@]}" \
    "${PARALLEL_ARGS[@]}" \
    > train.log 2>&1
