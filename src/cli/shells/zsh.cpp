// The script that zsh autoloads as _memest, or reads.
#include <map>
#include <string>

#include "cli/flags.hpp"
#include "cli/shells/shells.hpp"
#include "cli/shells/value_sets.hpp"
#include "cli/spec.hpp"

namespace memest {
namespace {

/// `text` where _arguments gives a colon and brackets a meaning.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string body_of(const ValueSet& set) {
  if (set.words.empty()) return set.files ? "_files" : "";
  std::string words;
  for (const std::string& word : set.words) words += ' ' + shell_quoted(word);
  const bool goes_on = set.words.front().ends_with('=');  // a value follows at once
  std::string body = set.listed ? "_sequence " : "";
  body += goes_on ? "compadd -S '' \"$@\" -" : "compadd \"$@\" -";
  body += words;
  return set.files ? body + "; _files" : body;
}

using Actions = std::map<LinePlace, std::string>;

/// Writes a function for each set that has words; what completes each place.
Actions write_values(std::string& out) {
  Actions actions;
  std::size_t count = 0;
  for (const PlacesOfSet& row : value_sets()) {
    std::string action = body_of(row.set);
    if (!row.set.words.empty()) {
      const std::string name = "_memest_values_" + std::to_string(++count);
      out += name + "() { " + action + " }\n";
      action = name;
    }
    for (const LinePlace& place : row.places) actions[place] = action.empty() ? " " : action;
  }
  return actions;
}

std::string argument(const std::string& spec) { return " \\\n        " + shell_quoted(spec); }

std::string arguments_of(const Command& command, const Actions& actions) {
  std::string out;
  for (const FlagRow& flag : flag_rows()) {
    if (!takes(command, flag)) continue;
    const std::string help = '[' + escaped(help_of(command, flag)) + ']';
    if (flag.value.empty()) {
      out += argument(std::string(flag.name) + help);
    } else {
      out += argument('*' + std::string(flag.name) + '=' + help + ':' + escaped(flag.value) + ':' +
                      actions.at({command.name, flag.name, 0, false}));
    }
  }
  std::size_t position = 0;
  for (const Placeholder& word : placeholders_of(command)) {
    ++position;
    const LinePlace place{command.name, "", position, word.repeats};
    out += argument((word.repeats ? "*" : std::to_string(position)) + ':' + std::string(word.name) +
                    ':' + actions.at(place));
  }
  return out;
}

constexpr std::string_view kMain = R"sh(
_memest() {
  local curcontext=$curcontext state state_descr line
  typeset -A opt_args
  _arguments -C \
    '(- *)--help[prints the overview]' \
    '(- *)--version[prints the version and what it was built of]' \
    '1:command:_memest_commands' \
    '*::argument:->argument' && return
  [[ $state == argument ]] || return 1
  case $words[1] in
)sh";

constexpr std::string_view kEnd = R"sh(  esac
}

if [[ $funcstack[1] == _memest ]]; then
  _memest "$@"
else
  compdef _memest memest
fi
)sh";

}  // namespace

std::string zsh_completions() {
  std::string out =
      "#compdef memest\n# zsh completion of memest, written by `memest completions zsh`.\n\n";
  const Actions actions = write_values(out);
  out += "\n_memest_commands() {\n  local -a commands=(";
  for (const Command& command : commands()) {
    out += "\n    " + shell_quoted(std::string(command.name) + ':' + escaped(command.summary));
  }
  out += "\n  )\n  _describe -t commands command commands\n}\n";
  out += kMain;
  for (const Command& command : commands()) {
    out += "    " + std::string(command.name) + ")\n      _arguments" +
           arguments_of(command, actions) + "\n      ;;\n";
  }
  return out + std::string(kEnd);
}

}  // namespace memest
