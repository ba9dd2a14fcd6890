memest diff llama-3-8b llama-3-8b --gpu h100 --gpus 8
