#!/bin/bash
deepspeed --num_nodes 2 --num_gpus 8 train.py --deepspeed ds_zero3.json --model_name_or_path meta-llama/Llama-3-8B \
  --max_seq_length 4096 --gradient_checkpointing true
