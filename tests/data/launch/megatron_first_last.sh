export CUDA_DEVICE_MAX_CONNECTIONS=1
L=62; H=4096
torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers $L --hidden-size $H --num-attention-heads 32 \
 --ffn-hidden-size $((H * 4)) --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 15 \
 --decoder-last-pipeline-num-layers 15 --tensor-model-parallel-size 2 --micro-batch-size 4 --seq-length 2048 \
 --max-position-embeddings 2048 --vocab-size 50304 --fp16
