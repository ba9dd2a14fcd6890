LC_ALL=C memest diff gpt2-xl gpt2 --gpu rtx-4090 | head -n 1
