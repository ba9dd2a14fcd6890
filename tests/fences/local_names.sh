#!/usr/bin/env bash
# local_names.sh TREE: in a room no two sources give one name to two constants, or to two functions of the same parameters, in their
# unnamed namespaces: a quick build compiles them as one (cmake/Rooms.cmake). A function is seen where its head is one line.
set -euo pipefail
cd "$1"

find src -name '*.cpp' | sort | xargs awk '
  FNR == 1 { split(FILENAME, path, "/"); room = path[2]; unnamed = 0; space = "" }
  /^namespace [a-z_:]+ \{/ { space = /^namespace memest/ ? $2 : space "::" $2 }
  /^}  \/\/ namespace [a-z]/ && !/^}  \/\/ namespace memest/ { sub(/::[a-z_]+$/, "", space) }
  /^namespace \{/ { unnamed = 1 }
  /^\}  \/\/ namespace$/ { unnamed = 0 }
  !unnamed { next }
  /^constexpr [^(]* (k[A-Z][A-Za-z0-9]*)(\[\])?( =|\{)/ {
    match($0, /k[A-Z][A-Za-z0-9]*(\[\])?( =|\{)/)
    name = substr($0, RSTART, RLENGTH)
    sub(/[^A-Za-z0-9].*/, "", name)
    check(name, name)
  }
  /^[A-Za-z][^=]*\) \{/ && !/^(struct|class|namespace|template|enum)/ {
    head = $0
    sub(/\) \{.*/, "", head)
    parameters = head
    sub(/^[^(]*\(/, "", parameters)
    sub(/\(.*/, "", head)
    sub(/.*[ &*]/, "", head)
    kinds = ""
    count = split(parameters, list, /, /)
    for (i = 1; i <= count; ++i) { sub(/ [a-z_0-9]*$/, "", list[i]); kinds = kinds "," list[i] }
    check(head "(" kinds, head)
  }
  function check(key, name) {
    key = room ":" space ":" key
    if (key in place && place[key] != FILENAME) {
      print FILENAME ":" FNR ": " name " is in " place[key] " too"
      wrong = 1
    } else {
      place[key] = FILENAME
    }
  }
  END { exit wrong }'
