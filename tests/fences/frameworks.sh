#!/usr/bin/env bash
# frameworks.sh TREE: what a framework or a loop does stands in its row (src/spec/framework.cpp, loops.cpp). Elsewhere its name is spelled only
# in its own files: what it refuses, how its model is written, the habits of its loop.
set -euo pipefail
cd "$1"

own='src/spec/(framework|loops)\.cpp|src/reader/(frameworks|fine_tuning)/[a-z_]+\.cpp|src/graph/lower/programs/[a-z]+\.cpp|src/memory/engine/loop_habits\.cpp'
found=$(grep -rnoE '\b(Framework|LoopKind)::[a-z_0-9]+' include src | sort | grep -vE "^($own):" || true)
[[ -z $found ]] || {
  while IFS=: read -r file line name; do
    echo "$file:$line: asks for $name, not for what its row says"
  done <<<"$found"
  exit 1
}
