memest diff gpt2 tests/golden/gpu.log --gpu rtx-4090
