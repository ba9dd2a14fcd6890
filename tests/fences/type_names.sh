#!/usr/bin/env bash
# type_names.sh TREE: a name has one meaning. Every type of a namespace has a name of its own, whatever room it is in, unnamed
# namespaces included: to the linker functions of two types of one name are one, and the destructor of one runs on the other. A
# function of a header has its name to itself among the rooms, unless its overloads say the same of another noun.
set -euo pipefail
cd "$1"

find include src -name '*.hpp' -o -name '*.cpp' | sort | xargs awk '
  BEGIN {
    split("name_of text_of policy_of zero_stage_of elements_of", list)
    for (i in list) overloaded[list[i]] = 1
  }
  FNR == 1 {
    split(FILENAME, path, "/")
    room = path[1] == "include" ? path[3] : path[2]
  }
  /^namespace [a-z:]+ \{/ { space = $2 }
  /^(struct|class|union|enum class|enum) [A-Za-z0-9]+( final)?( : .*)? \{/ {
    name = space "::" ($2 == "class" ? $3 : $2)
    if (name in place) {
      print FILENAME ":" FNR ": " name " is a type of " place[name] " too"
      wrong = 1
    } else {
      place[name] = FILENAME
    }
  }
  # An alias may stand twice where it says the same.
  /^using [A-Za-z0-9]+ = / {
    name = space "::" $2
    if (name in place && alias[name] != $0) {
      print FILENAME ":" FNR ": " name " is a type of " place[name] " too"
      wrong = 1
    } else if (!(name in place)) {
      place[name] = FILENAME
      alias[name] = $0
    }
  }
  FILENAME ~ /\.hpp$/ && /^[A-Za-z][A-Za-z0-9_:<>,&* \[\]]*[ &*][a-z][a-z0-9_]*\(/ && !/^(using|return|static_assert|friend) / {
    name = substr($0, 1, index($0, "(") - 1)
    sub(/.*[ &*]/, "", name)
    if (name in overloaded || name ~ /^operator/) next
    name = space "::" name
    if (name in function_room && function_room[name] != room) {
      print FILENAME ":" FNR ": " name "() is a function of " function_room[name] " too"
      wrong = 1
    } else {
      function_room[name] = room
    }
  }
  END { exit wrong }'
