export NNODES=16
export MASTER_ADDR=node0
