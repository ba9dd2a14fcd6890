memest diff tests/truth/runs/run.yaml tests/truth/runs/kept.pickle.gz
