#!/usr/bin/env bash
# words.sh TREE: a comment says who does what: no sentence of one begins with "Of", "The same" or "What".
set -euo pipefail
cd "$1"

found=$(grep -rnE --include='*.hpp' --include='*.cpp' --include='*.cu' '//[/!]?<? ?(.*[.:?] )?(Of|The same|What) ' include src kernels 2>/dev/null | sort || true)
[[ -z $found ]] || {
  while IFS=: read -r file line text; do
    echo "$file:$line: begins with no subject:${text##*//}"
  done <<<"$found"
  exit 1
}
