LC_ALL=C memest explain configs/models/gpt2.yaml activations
