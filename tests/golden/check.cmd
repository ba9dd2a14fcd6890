memest check tests/golden/timeline.yaml configs/models/gpt2.yaml
