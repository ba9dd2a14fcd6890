memest validate tests/golden/validate.records.jsonl --lines tests/golden/validate.lines.yaml
