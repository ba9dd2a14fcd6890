memest gpus l4
