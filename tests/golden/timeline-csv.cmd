memest timeline tests/golden/timeline.yaml --format csv | head -n 30 | tail -n 8; memest timeline tests/golden/timeline.yaml --format csv | tail -n 2
