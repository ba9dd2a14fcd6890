export LC_ALL=C; memest timeline gpt2 --gpu t4 --set training.micro_batch=8 --set training.global_batch=8
