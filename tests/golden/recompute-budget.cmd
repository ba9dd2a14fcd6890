memest estimate configs/models/gpt2.yaml --gpu h100-sxm-80gb --set training.micro_batch=16 --set training.global_batch=16 --set 'training.recompute={budget: 14GiB}' --format json | grep recompute
