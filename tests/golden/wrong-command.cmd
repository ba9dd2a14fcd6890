memest estimat configs/models/gpt2.yaml
