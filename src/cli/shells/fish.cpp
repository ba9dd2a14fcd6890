// The script that fish reads from a folder of completions.
#include <map>
#include <string>

#include "cli/flags.hpp"
#include "cli/shells/shells.hpp"
#include "cli/shells/value_sets.hpp"

namespace memest {
namespace {

const Command& command_of(const LinePlace& place) { return *find_command(place.command); }

const FlagRow& flag_of(const LinePlace& place) {
  for (const FlagRow& flag : flag_rows()) {
    if (flag.name == place.flag && takes(command_of(place), flag)) return flag;
  }
  return flag_rows().front();  // places are made of rows
}

/// `complete` for what stands behind one of `commands`.
std::string line_behind(const std::string& commands, const std::string& rest) {
  return "complete -c memest -n " + quoted_for_fish("__fish_seen_subcommand_from " + commands) +
         rest + "\n";
}

std::string long_flag(const FlagRow& flag, const Command& command) {
  return " -l " + std::string(flag.name.substr(2)) + " -d " +
         quoted_for_fish(help_of(command, flag));
}

/// -x takes no file, -r does.
std::string values_of(const ValueSet& set) {
  std::string out = set.files ? " -r -F" : " -x";
  if (set.words.empty()) return out;
  const std::string words = joined_by(" ", set.words);
  return out + " -a " + quoted_for_fish(set.listed ? "(__fish_append , " + words + ")" : words);
}

/// The commands of `places` by the flag, or by no flag.
std::map<std::string_view, std::vector<LinePlace>> by_flag(const std::vector<LinePlace>& places) {
  std::map<std::string_view, std::vector<LinePlace>> flags;
  for (const LinePlace& place : places) flags[place.flag].push_back(place);
  return flags;
}

std::string commands_of(const std::vector<LinePlace>& places) {
  std::vector<std::string> names;
  for (const LinePlace& place : places) {
    if (names.empty() || names.back() != place.command) names.emplace_back(place.command);
  }
  return joined_by(" ", names);
}

std::string switches() {
  std::string out;
  for (const FlagRow& flag : flag_rows()) {
    std::vector<std::string> names;
    for (const Command& command : commands()) {
      if (takes(command, flag)) names.emplace_back(command.name);
    }
    if (!flag.value.empty() || names.empty()) continue;
    out += line_behind(joined_by(" ", names), long_flag(flag, *find_command(names.front())));
  }
  return out;
}

}  // namespace

std::string fish_completions() {
  std::string out =
      "# fish completion of memest, written by `memest completions fish`.\n"
      "complete -c memest -f\n"
      "complete -c memest -n __fish_use_subcommand -l help -d 'prints the overview'\n"
      "complete -c memest -n __fish_use_subcommand -l version -d 'prints the version and what it "
      "was built of'\n";
  for (const Command& command : commands()) {
    out += "complete -c memest -n __fish_use_subcommand -a " + std::string(command.name) + " -d " +
           quoted_for_fish(command.summary) + "\n";
  }
  out += switches();
  for (const PlacesOfSet& row : value_sets()) {
    for (const auto& [flag, places] : by_flag(row.places)) {
      const std::string values = values_of(row.set);
      if (!flag.empty()) {
        const std::string named = long_flag(flag_of(places.front()), command_of(places.front()));
        out += line_behind(commands_of(places), named + values);
      } else if (!row.set.words.empty() || row.set.files) {
        // Words are no value of a flag: -x and -r say nothing of them.
        const std::string files = row.set.files ? " -F" : "";
        const std::string words =
            row.set.words.empty() ? "" : " -a " + quoted_for_fish(joined_by(" ", row.set.words));
        out += line_behind(commands_of(places), files + words);
      }
    }
  }
  return out;
}

}  // namespace memest
