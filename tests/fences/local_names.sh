#!/usr/bin/env bash
# local_names.sh TREE: in a room no two sources give one name to two constants, or to two functions that a call could mean, in their
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
    while (match(parameters, /<[^<>]*>/)) {
      inner = substr(parameters, RSTART + 1, RLENGTH - 2)
      gsub(/, /, ";", inner)
      parameters = substr(parameters, 1, RSTART - 1) "{" inner "}" substr(parameters, RSTART + RLENGTH)
    }
    sub(/\(.*/, "", head)
    sub(/.*[ &*]/, "", head)
    count = split(parameters, list, /, /)
    for (i = 1; i <= count; ++i) sub(/ [a-z_0-9]*$/, "", list[i])
    overload(room ":" space ":" head, head)
  }
  # One of them could be called in place of the other: as many parameters, each the same or one that others become by themselves.
  function overload(key, name, i, j, same, other, size) {
    for (j = 1; j <= overloads[key]; ++j) {
      size = split(known[key, j], other, /, /)
      if (size != count || home[key, j] == FILENAME) continue
      same = 1
      for (i = 1; i <= count; ++i) if (list[i] != other[i] && !loose(list[i]) && !loose(other[i])) same = 0
      if (same) {
        print FILENAME ":" FNR ": " name " is in " home[key, j] " too"
        wrong = 1
      }
    }
    known[key, ++overloads[key]] = parameters_of()
    home[key, overloads[key]] = FILENAME
  }
  function parameters_of(i, text) {
    for (i = 1; i <= count; ++i) text = text (i > 1 ? ", " : "") list[i]
    return text
  }
  function loose(kind) {
    return kind ~ /(^|[ <:])(bool|char|double|float|int|u?int[0-9]+_t|size_t|Int128|string|string_view|variant|optional|T|Variant)([ &*{}]|$)/
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
