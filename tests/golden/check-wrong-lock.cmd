memest check tests/golden/timeline.yaml --lock tests/golden/wrong.lock
