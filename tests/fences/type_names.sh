#!/usr/bin/env bash
# type_names.sh TREE: every type of a namespace has a name of its own, whatever room it is in. To the linker functions of
# two types of one name are one: the destructor of one runs on the other.
set -euo pipefail
cd "$1"

find include src -name '*.hpp' -o -name '*.cpp' | sort | xargs awk '
  FNR == 1 { hidden = 0 }
  /^namespace [a-z:]+ \{/ { room = $2 }
  /^namespace \{/ { hidden = 1 }
  /^\}  \/\/ namespace$/ { hidden = 0 }
  !hidden && /^(struct|class|union|enum class) [A-Za-z0-9]+( final)?( : .*)? \{/ {
    name = room "::" ($1 == "enum" ? $3 : $2)
    if (name in place) {
      print FILENAME ":" FNR ": " name " is a type of " place[name] " too"
      wrong = 1
    } else {
      place[name] = FILENAME
    }
  }
  END { exit wrong }'
