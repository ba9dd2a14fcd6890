memest replay tests/truth/synthetic/s06.trace.gz tests/truth/synthetic/s12.trace.gz tests/truth/traces/v117.trace.gz tests/truth/traces/v127.trace.gz --format markdown
