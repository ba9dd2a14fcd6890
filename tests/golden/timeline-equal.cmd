memest timeline tests/golden/timeline.yaml --against tests/truth/steps/accumulated.trace.gz
