#!/usr/bin/env bash
# sharding.sh TREE: the keys with which a spec writes who shares what are read in reader and resolved in spec
# (include/memest/spec/parallel/sharding.hpp, sharing.hpp). Elsewhere the variant is asked, not the keys.
set -euo pipefail
cd "$1"

{ find include src \( -name '*.hpp' -o -name '*.cpp' \) -not -path '*/spec/*' -not -path '*/reader/*' 2>/dev/null || true; } | sort | xargs -r awk '
  {
    line = $0
    sub(/\/\/.*/, "", line)
    gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    while (match(line, /(\.|->)(zero|fsdp|deepspeed)([^A-Za-z0-9_(]|$)|(^|[^A-Za-z0-9_])(distributed_optimizer|gathered_units|shards_rows|shards_flat)([^A-Za-z0-9_]|$)/)) {
      word = substr(line, RSTART, RLENGTH)
      gsub(/[^A-Za-z0-9_]/, "", word)
      print FILENAME ":" FNR ": asks for " word ", not for what comes of it (spec/parallel/sharding.hpp)"
      line = substr(line, RSTART + RLENGTH)
      bad = 1
    }
  }
  END { exit bad }'
