#!/usr/bin/env bash
# sizes.sh TREE: the ceilings: a public header 250 lines, a source 400, a kernel file 250, a function 60, a folder of src or include
# 25 files. A function is known by the layout that .clang-format gives it: it opens with a line that ends in `{`, after a parenthesis
# (`({` opens the rows of a table), and closes with a `}` at the indentation of its first line.
set -euo pipefail
cd "$1"

{ find include src kernels record -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null || true; } | sort | xargs -r awk '
  function ceiling(file) { return file ~ /^(include|kernels|record)\// ? 250 : 400 }
  function close_file() {
    if (file != "" && lines > ceiling(file)) {
      print file ": " lines " lines, the ceiling is " ceiling(file)
      bad = 1
    }
  }
  FNR == 1 {
    folder = FILENAME
    sub(/\/[^\/]*$/, "", folder)
    if (folder ~ /^(src|include)\//) files[folder]++
  }
  FNR == 1 { close_file(); file = FILENAME; inside = 0; statement = 0 }
  { lines = FNR }
  # The first line of a declaration: where a statement begins at this indentation.
  !inside && /^[ ]*[A-Za-z_~\[]/ && !/^[ ]*(namespace|class|struct|enum|union|public|private|protected|using|return|if|for|while|switch|else|case|default)([^A-Za-z0-9_]|$)/ {
    match($0, /^[ ]*/)
    if (!statement || RLENGTH <= indent) { statement = FNR; indent = RLENGTH; has_parameters = 0 }
  }
  statement && !inside && /\(/ { has_parameters = 1 }
  statement && !inside && /;[ \t]*(\/\/.*)?$/ { statement = 0; next }
  statement && !inside && /\}[ \t]*(\/\/.*)?$/ { statement = 0; next }
  statement && !inside && /\(\{$/ { statement = 0; next }
  statement && !inside && /\{[ \t]*(\/\/.*)?$/ {
    if (has_parameters) { inside = 1; begin = statement; closing = sprintf("%" (indent + 1) "s", "}") }
    statement = 0
    next
  }
  inside && substr($0, 1, length(closing)) == closing {
    if (FNR - begin + 1 > 60) {
      print file ":" begin ": a function of " FNR - begin + 1 " lines, the ceiling is 60"
      bad = 1
    }
    inside = 0
  }
  END {
    close_file()
    for (folder in files) if (files[folder] > 25) {
      print folder ": " files[folder] " files, the ceiling is 25"
      bad = 1
    }
    exit bad
  }'
