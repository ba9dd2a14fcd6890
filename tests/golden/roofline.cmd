memest roofline gpt2 --gpu a100 --set training.global_batch=8 --set training.micro_batch=8
