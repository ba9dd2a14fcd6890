memest diff gpt2 t5-small --gpu rtx-4090 --format markdown
