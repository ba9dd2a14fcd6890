memest export llama-3-8b --to deepspeed --gpus 8 --set 'parallelism={zero: 3, offload: {optimizer: cpu}}' --set training.recompute=full
