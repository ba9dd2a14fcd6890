// The script that bash reads. It asks for nothing but bash itself (3.2 and newer).
#include <string>

#include "cli/flags.hpp"
#include "cli/shells/shells.hpp"
#include "cli/shells/value_sets.hpp"
#include "cli/spec.hpp"

namespace memest {
namespace {

/// A pattern of `case`: COMMAND,FLAG or COMMAND,POSITION.
std::string pattern_of(const LinePlace& place) {
  std::string pattern(place.command);
  pattern += ',';
  if (!place.flag.empty()) return pattern + std::string(place.flag);
  return pattern + (place.repeats ? "[0-9]*" : std::to_string(place.position));
}

/// The body of a `case` that says what can stand at each place.
std::string cases_of_values() {
  std::string out;
  for (const PlacesOfSet& row : value_sets()) {
    out += "    ";
    for (const LinePlace& place : row.places) {
      if (&place != row.places.data()) out += '|';
      out += pattern_of(place);
    }
    out += ")\n      words=" + shell_quoted(joined_by(" ", row.set.words));
    if (row.set.files) out += " files=yes";
    if (row.set.listed) out += " listed=yes";
    out += " ;;\n";
  }
  return out;
}

std::string cases_of_flags() {
  std::string out;
  for (const Command& command : commands()) {
    out += "    " + std::string(command.name) + ") words=" + shell_quoted(joined_flags(command)) +
           " ;;\n";
  }
  return out;
}

constexpr std::string_view kHead =
    R"sh(# bash completion of memest, written by `memest completions bash`.

# Sets words, files and listed to what can stand behind COMMAND,FLAG or COMMAND,POSITION; fails where nothing can.
_memest_values() {
  case $1 in
)sh";

constexpr std::string_view kBetween = R"sh(    *) return 1 ;;
  esac
}

_memest_flags() {
  case $1 in
)sh";

constexpr std::string_view kTail = R"sh(
# How many words that are no flags and no values of flags stand before the current one.
_memest_position() {
  local i position=1 words files listed
  for ((i = 2; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      =) ((++i)) ;;
      -o) ((++i)) ;;
      --*)
        if _memest_values "$1,${COMP_WORDS[i]}"; then
          if [[ ${COMP_WORDS[i + 1]} == = ]]; then ((++i)); fi
          ((++i))
        fi
        ;;
      -?*) ;;
      *) ((++position)) ;;
    esac
  done
  echo "$position"
}

_memest() {
  local words='' files='' listed='' before='' command=${COMP_WORDS[1]}
  local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  # Bash splits --flag=value in three words.
  if [[ $current == = ]]; then
    current=''
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
    if [[ $flag != --* ]]; then return; fi
  fi
  if [[ $flag == -o ]]; then flag=--output; fi
  if ((COMP_CWORD == 1)); then
    words="$_memest_commands --help --version"
  elif [[ $flag == -* ]] && _memest_values "$command,$flag"; then
    if [[ -n $listed && $current == *,* ]]; then
      before=${current%,*},
      current=${current##*,}
    fi
  elif [[ $current == -* ]]; then
    _memest_flags "$command"
  else
    _memest_values "$command,$(_memest_position "$command")" || return
  fi
  local word
  for word in $words; do
    if [[ $word == "$current"* ]]; then COMPREPLY+=("$before$word"); fi
  done
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r word; do COMPREPLY+=("$before$word"); done < <(compgen -f -- "$current")
  fi
  # A setting goes on behind its sign.
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
  return 0
}

complete -F _memest memest
)sh";

}  // namespace

std::string bash_completions() {
  return std::string(kHead) + cases_of_values() + std::string(kBetween) + cases_of_flags() +
         "  esac\n}\n\n_memest_commands=" + shell_quoted(joined_commands()) + "\n" +
         std::string(kTail);
}

}  // namespace memest
