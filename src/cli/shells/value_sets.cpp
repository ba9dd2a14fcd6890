#include "cli/shells/value_sets.hpp"

#include <map>
#include <string>

#include "cli/flags.hpp"

namespace memest {
std::vector<PlacesOfSet> value_sets() {
  std::map<ValueSet, std::vector<LinePlace>> sets;
  for (const Command& command : commands()) {
    std::size_t position = 0;
    for (const Placeholder& word : placeholders_of(command)) {
      const ValueSet set{word.words == nullptr ? std::vector<std::string>() : word.words(),
                         word.is_file, false};
      sets[set].push_back({command.name, "", ++position, word.repeats});
    }
    for (const FlagRow& flag : flag_rows()) {
      if (flag.value.empty() || !takes(command, flag)) continue;
      const ValueSet set{flag_words(command, flag), flag.value.starts_with("FILE"),
                         flag.value.find("[,") != std::string_view::npos};
      sets[set].push_back({command.name, flag.name, 0, false});
    }
  }
  std::vector<PlacesOfSet> result;
  for (auto& [set, places] : sets) result.push_back({set, std::move(places)});
  return result;
}

std::string joined_commands() {
  std::string names;
  for (const Command& command : commands()) {
    if (!names.empty()) names += ' ';
    names += command.name;
  }
  return names;
}

std::string joined_flags(const Command& command) {
  std::string names;
  for (const FlagRow& flag : flag_rows()) {
    if (!takes(command, flag)) continue;
    if (!names.empty()) names += ' ';
    names += flag.name;
  }
  return names;
}

std::string quoted_for_fish(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace memest
