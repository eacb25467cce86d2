#!/bin/bash
# one line of arguments, DeepEP, EP overlap, a layout string
ARGS="--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 --kv-channels 128 \
--group-query-attention --num-query-groups 4 --qk-layernorm --normalization RMSNorm --swiglu --disable-bias-linear \
--untie-embeddings-and-output-weights --position-embedding-type rope --vocab-size 151936 \
--num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 --moe-grouped-gemm \
--moe-token-dispatcher-type flex --moe-enable-deepep --overlap-moe-expert-parallel-comm --moe-router-dtype fp32 \
--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 \
--pipeline-model-parallel-layout Et*5|(t*6|)*6t*7L --seq-length 4096 --micro-batch-size 2 --global-batch-size 512 \
--bf16 --fp8-format hybrid --fp8-recipe blockwise --use-distributed-optimizer --recompute-granularity selective \
--recompute-modules moe_act layernorm --optimizer-cpu-offload --optimizer-offload-fraction 0.5 --use-precision-aware-optimizer"
torchrun --nproc-per-node=8 --nnodes=8 pretrain_gpt.py $ARGS
