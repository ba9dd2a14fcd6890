memest check tests/record/worked.memrec.gz --gpu a100-sxm-80gb --set budget.memory=400MiB --set budget.step_time=1s
