torchrun --nproc_per_node 8 pretrain_gpt.py \
  --num-layers 30 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 \
  --seq-length 4096 --micro-batch-size 1 --pipeline-model-parallel-size 4 --bf16 \
  --position-embedding-type relative --normalization RMSNorm --fp8-format e4m3 --fp8-recipe custom
