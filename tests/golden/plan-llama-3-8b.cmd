memest plan configs/models/llama-3-8b.yaml --gpus 8 --gpu h200,h100,a100-sxm-80gb,l40s
