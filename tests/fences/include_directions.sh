#!/usr/bin/env bash
# include_directions.sh TREE: arrows between rooms go down. A room includes itself and the rooms of lower floors, never one of its
# own floor or above, and what belongs to memest::core includes nothing that does not. A private header ("ROOM/...") is included by its
# own room alone, and inside memory the arrows between folders go down too.
set -euo pipefail
cd "$1"

{ find include src kernels record -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null || true; } | sort | xargs -r awk '
  BEGIN {
    split("units 1 diag 1.5 symbolic 2 spec 2.5 graph 3 reader 3 kernels 3 record 2.5 memory 4 time 4 calibrate 4.5 plan 5 report 6 cli 7", list)
    for (i = 1; i in list; i += 2) floor[list[i]] = list[i + 1]
    split("units diag symbolic spec graph memory time plan", list)
    for (i in list) core[list[i]] = 1
    split("allocator states timeline packing engine optimizer sharding megatron accumulator generation programs moments ledger", list)
    for (i = 1; i in list; i++) shelf[list[i]] = i
  }
  FNR == 1 {
    n = split(FILENAME, path, "/")
    room = path[1] == "kernels" || path[1] == "record" ? path[1] : path[1] == "include" ? path[3] : path[2]
    if (!(room in floor)) { print FILENAME ": no such room as " room; bad = 1 }
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    n = split(quoted[2], path, "/")
    if (path[1] in floor && room in floor && FILENAME ~ /^src\//) {
      split(FILENAME, own, "/")
      if (path[1] != room) why = path[1] " keeps " quoted[2] " to itself"
      else if (room == "memory" && shelf[own[3]] && shelf[path[2]] > shelf[own[3]]) why = own[3] " may not include " path[2] ", which is above it"
      else next
      print FILENAME ":" FNR ": " why
      bad = 1
      next
    }
    if (path[1] != "memest" || n < 3) next
    other = path[2]
    if (!(other in floor)) why = "there is no room " other
    else if (other != room && floor[other] >= floor[room]) why = room " may not include " other ", which is not below it"
    else if (core[room] && !core[other]) why = room " is of memest::core, and " other " is not"
    else next
    print FILENAME ":" FNR ": " why
    bad = 1
  }
  END { exit bad }'
