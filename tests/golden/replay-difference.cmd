gzip -dc tests/truth/traces/v112.trace.gz | sed '/^= forward/s/reserved_peak=1/reserved_peak=2/' | memest replay /dev/stdin
