#!/usr/bin/env bash
# local_names.sh TREE: in a room no two sources give one name to two constants, or to two functions of the same parameters, in their
# unnamed namespaces: a quick build compiles them as one (cmake/Rooms.cmake). Sources that a room's CMakeLists.txt names APART or
# with SKIP_UNITY_BUILD_INCLUSION are compiled alone, and may. A function is seen where its head is one line.
set -euo pipefail
cd "$1"

apart=$(for list in src/*/CMakeLists.txt; do
  awk -v room="$(dirname "$list")" '
    /^  APART/ { within = 1 }
    within || /SKIP_UNITY_BUILD_INCLUSION/ { for (i = 1; i <= NF; ++i) if ($i ~ /\.cpp$/) { sub(/.*\(/, "", $i); print room "/" $i } }
    /^\)/ { within = 0 }' "$list"
done)

find src -name '*.cpp' | sort | APART=$apart xargs awk '
  BEGIN { n = split(ENVIRON["APART"], list, "\n"); for (i = 1; i <= n; ++i) alone[list[i]] = 1 }
  FNR == 1 { split(FILENAME, path, "/"); room = path[2]; unnamed = 0 }
  /^namespace [a-z:]+ \{/ { space = $2 }
  FILENAME in alone { next }
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
