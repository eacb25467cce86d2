#!/bin/bash
export HCCL_CONNECT_TIMEOUT=3600
torchrun --nproc_per_node 8 train_fsdp2.py examples/fsdp2/qwen3/config.yaml
