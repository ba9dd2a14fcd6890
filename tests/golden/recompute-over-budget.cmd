memest estimate configs/models/gpt2.yaml --gpu h100-sxm-80gb --set 'training.recompute={budget: 1GiB}'
