#!/bin/bash
FSDP="--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --ckpt-format fsdp_dtensor"
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py ${FSDP} --use-distributed-optimizer \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention \
  --num-query-groups 8 --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights \
  --position-embedding-type rope --vocab-size 128256 --seq-length 8192 --micro-batch-size 1 --bf16 \
  --fine-grained-activation-offloading --offload-modules core_attn attn_proj --grad-reduce-in-bf16
