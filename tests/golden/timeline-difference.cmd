gzip -dc tests/truth/steps/accumulated.trace.gz | sed '0,/^a 40 /s/^a 40 [0-9]* /a 40 12345 /' | memest timeline tests/golden/timeline.yaml --against /dev/stdin | tail -n 5
