memest replay tests/truth/traces/v125.trace.gz
