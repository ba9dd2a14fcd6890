#!/usr/bin/env bash
# refuses.sh FENCE TREE: passes when the fence refuses the tree, which breaks its rules, with exactly TREE/expected.txt.
set -euo pipefail

if answer=$("$1" "$2"); then
  echo "$1 finds nothing wrong with $2"
  exit 1
fi
diff "$2/expected.txt" <(printf '%s\n' "$answer")
