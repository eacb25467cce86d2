#!/bin/bash
# sentinels, tp-extend-ep, a vocabulary that is the tokenizer's
NPUS_PER_NODE=8
NNODES=4
MODEL="--num-layers 24 --hidden-size 2048 --ffn-hidden-size 5632 --num-attention-heads 16 --normalization RMSNorm --swiglu \
  --disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope"
MOE="--num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 --moe-layer-freq -1 --first-k-dense-replace -1 \
  --moe-token-dispatcher-type alltoall_seq --moe-tp-extend-ep --moe-permutation-async-comm --moe-grouped-gemm"
torchrun --nproc_per_node $NPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py $MODEL $MOE \
  --tensor-model-parallel-size 8 --expert-model-parallel-size 4 --sequence-parallel \
  --seq-length 8192 --micro-batch-size 1 --global-batch-size 64 \
  --tokenizer-type PretrainedFromHF --tokenizer-name-or-path "your tokenizer path" --bf16 --use-distributed-optimizer
