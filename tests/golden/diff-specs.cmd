memest diff gpt2 gpt2-xl --gpu rtx-4090 --set training.micro_batch=2
