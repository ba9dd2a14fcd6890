#!/usr/bin/env bash
# parameters.sh TREE: a function has at most four parameters and at most one `bool` among them: more are a noun, and a second
# flag is an enum. Counts declarations, definitions, constructors and lambdas.
set -euo pipefail
cd "$1"

find include src -name '*.hpp' -o -name '*.cpp' | sort | xargs awk '
  # The parameters in `text`, whose first character is the opening parenthesis: COUNT, FLAGS and LENGTH up to the closing one.
  function read_parameters(text,    i, c, depth, angles, one, before) {
    COUNT = FLAGS = 0
    depth = angles = 0
    one = ""
    for (i = 1; i <= length(text); ++i) {
      c = substr(text, i, 1)
      if (c ~ /[({\[]/) { ++depth; if (depth == 1) continue }
      if (c ~ /[)}\]]/) --depth
      before = substr(text, i - 1, 1)
      if (depth == 1 && c == "<" && before ~ /[A-Za-z0-9_]/) ++angles
      if (depth == 1 && c == ">" && angles > 0 && before != "-") --angles
      if (depth == 0 || (depth == 1 && angles == 0 && c == ",")) {
        gsub(/^[ \t]+|[ \t]+$/, "", one)
        if (one != "" && one != "void") ++COUNT
        if (one ~ /^(const )?(bool|std::optional<bool>)&? *[a-z0-9_]*( *=.*)?$/) ++FLAGS
        one = ""
        if (depth == 0) { LENGTH = i; return }
        continue
      }
      one = one c
    }
    LENGTH = length(text)
  }
  function judge(name, line) {
    if (COUNT > 4) { print FILENAME ":" line ": " name " has " COUNT " parameters, the most is four"; bad = 1 }
    if (FLAGS > 1) { print FILENAME ":" line ": " name " has " FLAGS " of type bool, the most is one"; bad = 1 }
  }
  function judge_lambdas(text, line,    at, rest) {
    while ((at = match(text, /\][ ]?\(/)) > 0) {
      text = substr(text, at + RLENGTH - 1)
      read_parameters(text)
      rest = substr(text, LENGTH + 1)
      if (rest ~ /^[ \t]*(\{|->|mutable|noexcept)/) judge("a lambda", line)
      text = substr(text, 2)
    }
  }
  # Whether `text`, a statement up to its semicolon or brace, declares a function; it is judged where it does.
  function is_function(text, line,    i, c, angles, before, head, name) {
    gsub(/\[\[[^\]]*\]\]/, "", text)
    if (text ~ /^[ \t]*(using|typedef|static_assert|return|friend class|extern template)([^A-Za-z0-9_]|$)/) return 0
    angles = 0
    for (i = 1; i <= length(text); ++i) {
      c = substr(text, i, 1)
      head = substr(text, 1, i - 1)
      before = substr(text, i - 1, 1)
      if (head ~ /operator *(\(\))?$/ && c != "(") continue
      if (head ~ /operator *[-+*\/<>=!&|^%~\[\]]+$/ && c != "(") continue
      if (c == "<" && (before ~ /[A-Za-z0-9_]/ || head ~ /template *$/)) ++angles
      if (c == ">" && angles > 0 && before != "-") --angles
      if (angles > 0) continue
      if (c == "=") return 0
      if (c != "(" || head ~ /operator *$/) continue
      if (head ~ /(decltype|alignas|explicit|noexcept|requires|__attribute__) *$/) {
        read_parameters(substr(text, i))
        i += LENGTH - 1
        continue
      }
      if (head !~ /[A-Za-z0-9_>=+*\/<\-!)\]] *$/) return 0
      name = head
      sub(/ *$/, "", name)
      sub(/.*[ *&]/, "", name)
      read_parameters(substr(text, i))
      judge(name, line)
      return 1
    }
    return 0
  }
  FNR == 1 { level = 0; kind[0] = "n"; parens = 0; text = body = ""; in_comment = 0; directive = 0 }
  {
    line = $0
    if (directive || line ~ /^[ \t]*#/) { directive = line ~ /\\$/; next }
    gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    gsub(/\047([^\047\\]|\\.)\047/, "0", line)
    sub(/\/\/.*/, "", line)
    gsub(/\/\*[^*]*\*\//, "", line)
    size = split(line, letters, "")
    for (at = 1; at <= size; ++at) {
      c = letters[at]
      if (kind[level] == "n") {
        if (c == "(") ++parens
        if (c == ")") --parens
        if (parens > 0 || (c != "{" && c != "}" && c != ";")) {
          if (text == "" && c !~ /[ \t]/) begin = FNR
          if (text != "" || c !~ /[ \t]/) text = text c
          if (text ~ /^(public|private|protected):$/) text = ""
          continue
        }
        if (c == "{") {
          if (text ~ /(^| )namespace( |$)/ || text ~ /^extern "" $/) opened = "n"
          else if (text ~ /^(template.*> )?(class|struct|union)( |$)/ && text !~ /\(.*\) *(const)? *$/) opened = "n"
          else if (text ~ /^enum( |$)/) opened = "i"
          else if (text ~ /[A-Za-z0-9_>]$/) opened = "i"
          else if (is_function(text, begin)) opened = "f"
          else opened = "i"
          kind[++level] = opened
          if (opened != "i") text = ""
          body = text
          continue
        }
        if (c == ";") { is_function(text, begin); text = ""; continue }
        text = ""
        if (level > 0) --level
        continue
      }
      if (c == "{") kind[++level] = "b"
      if (c == "}") {
        closed = kind[level--]
        if (kind[level] == "n") {
          judge_lambdas(body, begin)
          if (closed == "f") text = ""
          else text = text "{}"
          continue
        }
      }
      # A statement of a body at a time: that is where a lambda stands whole up to its own brace.
      if (c == "{" || c == ";") { judge_lambdas(body c, FNR); body = "" }
      else body = body c
    }
    if (kind[level] == "n") { if (text != "") text = text " " }
    else body = body " "
  }
  END { exit bad }'
