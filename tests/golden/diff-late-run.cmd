memest diff tests/truth/runs/run.yaml tests/truth/runs/late.pickle.gz --set training.optimizer=sgd --format csv
