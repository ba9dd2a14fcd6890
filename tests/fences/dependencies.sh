#!/usr/bin/env bash
# dependencies.sh TREE: each package, each door to the outside and each way out of the program has its rooms, and is met nowhere
# else. The rows below are: a regular expression, the rooms where it may stand, what to say.
set -euo pipefail
cd "$1"

rules='
#[ \t]*include[ \t]*[<"]yaml-cpp/|reader|yaml-cpp lives in reader
#[ \t]*include[ \t]*[<"]nlohmann/|reader report|the JSON library lives in reader, and in report for output
#[ \t]*include[ \t]*[<"]toml|reader|toml++ lives in reader
#[ \t]*include[ \t]*[<"]zlib|reader report|compressed files are read in reader, and what pages carry is packed in report
#[ \t]*include[ \t]*[<"]fmt/|report cli|text is made for people in report
#[ \t]*include[ \t]*[<"]CLI/|cli|flags are parsed in cli
#[ \t]*include[ \t]*[<"](unsupported/)?Eigen/|calibrate kernels|Eigen lives in calibrate and the host backend
#[ \t]*include[ \t]*[<"](cuda|cublas|curand|nvml)|kernels|CUDA headers live under kernels
#[ \t]*include[ \t]*<(filesystem|fstream)>|reader report cli record kernels calibrate|memest::core knows no file system
#[ \t]*include[ \t]*<(iostream|print)>|report cli|nothing prints below report
#[ \t]*include[ \t]*<(chrono|random|ctime|thread)>|report cli kernels calibrate|estimates are pure: no clock, no randomness
(^|[^A-Za-z0-9_])(printf|puts|fprintf|std::cout|std::cerr|std::print|std::println)([^A-Za-z0-9_]|$)|report cli record|nothing prints below report
(^|[^A-Za-z0-9_])(getenv|secure_getenv)[ \t]*\(|cli record|the environment is read in cli, and by the null device inside of another program
(^|[^A-Za-z0-9_])isatty[ \t]*\(|cli|the terminal is asked in cli
(^|[^A-Za-z0-9_])(exit|_Exit|quick_exit|abort|terminate)[ \t]*\(|cli|the program ends in main
(^|[^A-Za-z0-9_])catch[ \t]*\(|cli reader|exceptions are caught in main, and those of yaml-cpp and the JSON parser in reader
'

{ find include src kernels record -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null || true; } | sort | RULES=$rules xargs -r awk '
  BEGIN {
    n = split(ENVIRON["RULES"], lines, "\n")
    for (i = 1; i <= n; ++i)
      if (lines[i] != "") {
        rest = lines[i]
        say[++count] = substr(rest, match(rest, /\|[^|]*$/) + 1)
        rest = substr(rest, 1, RSTART - 1)
        rooms[count] = " " substr(rest, match(rest, /\|[a-z ]*$/) + 1) " "
        pattern[count] = substr(rest, 1, RSTART - 1)
      }
  }
  FNR == 1 {
    split(FILENAME, path, "/")
    room = path[1] == "kernels" || path[1] == "record" ? path[1] : path[1] == "include" ? path[3] : path[2]
  }
  {
    line = $0
    sub(/\/\/.*/, "", line)
    if (line !~ /^[ \t]*#/) gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
    for (i = 1; i <= count; ++i)
      if (line ~ pattern[i] && index(rooms[i], " " room " ") == 0) {
        print FILENAME ":" FNR ": " say[i]
        bad = 1
      }
  }
  END { exit bad }'
