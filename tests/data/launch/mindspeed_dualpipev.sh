#!/bin/bash
# DeepSeek style: quoted argument strings with continuations
export CUDA_DEVICE_MAX_CONNECTIONS=1
export HCCL_CONNECT_TIMEOUT=3600
NPUS_PER_NODE=16
NNODES=32
WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))
TP=2
PP=8
EP=32
SEQ_LEN=4096
GBS=3840
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank 0
"
MLA_ARGS="
    --multi-latent-attention \
    --qk-pos-emb-head-dim 64 \
    --qk-head-dim 128 \
    --q-lora-rank 1536 \
    --kv-lora-rank 512 \
    --v-head-dim 128 \
    --qk-layernorm \
"
MOE_ARGS="
    --moe-grouped-gemm \
    --moe-permutation-async-comm \
    --moe-token-dispatcher-type alltoall \
    --first-k-dense-replace 3 \
    --moe-layer-freq 1 \
    --moe-shared-expert-intermediate-size 2048 \
    --num-experts 256 \
    --moe-router-topk 8 \
    --moe-router-num-groups 8 \
    --moe-router-group-topk 4 \
    --moe-ffn-hidden-size 2048 \
    --moe-router-enable-expert-bias \
"
DUALPIPE_ARGS="
    --moe-fb-overlap \
    --schedules-method dualpipev \
"
GPT_ARGS="
    --noop-layers 61,62,63 \
    --use-distributed-optimizer \
    --use-flash-attn \
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --expert-model-parallel-size ${EP} \
    --expert-tensor-parallel-size 1 \
    --sequence-parallel \
    --num-layers 64 \
    --hidden-size 7168 \
    --ffn-hidden-size 18432 \
    --num-attention-heads 128 \
    --seq-length ${SEQ_LEN} \
    --max-position-embeddings 163840 \
    --micro-batch-size 1 \
    --global-batch-size ${GBS} \
    --untie-embeddings-and-output-weights \
    --disable-bias-linear \
    --attention-dropout 0.0 \
    --hidden-dropout 0.0 \
    --position-embedding-type rope \
    --normalization RMSNorm \
    --swiglu \
    --mtp-num-layers 1 \
    --recompute-granularity full \
    --recompute-method block \
    --recompute-num-layers 8 \
    --swap-optimizer \
    --padded-vocab-size 129280 \
    --bf16
"
python -m torch.distributed.launch $DISTRIBUTED_ARGS pretrain_gpt.py \
    $GPT_ARGS \
    $MLA_ARGS \
    $DUALPIPE_ARGS \
    $MOE_ARGS \
    --distributed-backend nccl | tee logs/out.log
