memest estimate configs/models/gpt2.yaml --gpu rtx-4090
