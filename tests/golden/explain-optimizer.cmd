memest explain configs/models/llama-3-8b.yaml optimizer --gpu h100 --gpus 8 --set parallelism.zero=1
