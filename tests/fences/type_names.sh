#!/usr/bin/env bash
# type_names.sh TREE: every type of a namespace has a name of its own, whatever room it is in, unnamed namespaces included. To the
# linker functions of two types of one name are one: the destructor of one runs on the other. To a reader a name has one meaning.
set -euo pipefail
cd "$1"

find include src -name '*.hpp' -o -name '*.cpp' | sort | xargs awk '
  /^namespace [a-z:]+ \{/ { room = $2 }
  /^(struct|class|union|enum class|enum) [A-Za-z0-9]+( final)?( : .*)? \{/ {
    name = room "::" ($2 == "class" ? $3 : $2)
    if (name in place) {
      print FILENAME ":" FNR ": " name " is a type of " place[name] " too"
      wrong = 1
    } else {
      place[name] = FILENAME
    }
  }
  # An alias may stand twice where it says the same.
  /^using [A-Za-z0-9]+ = / {
    name = room "::" $2
    if (name in place && alias[name] != $0) {
      print FILENAME ":" FNR ": " name " is a type of " place[name] " too"
      wrong = 1
    } else if (!(name in place)) {
      place[name] = FILENAME
      alias[name] = $0
    }
  }
  END { exit wrong }'
