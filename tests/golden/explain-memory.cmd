memest explain configs/models/gpt2.yaml memory --gpu h100
