#include "report/record/alike_modules.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace memest {
namespace {

/// The parts of a dotted name; numbers among them are indices of lists.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    parts.push_back(name.substr(0, dot));
    if (dot == name.size()) return parts;
    name.remove_prefix(dot + 1);
  }
}

bool is_index(std::string_view part) {
  constexpr std::size_t kMostDigits = 9;
  return !part.empty() && part.size() <= kMostDigits &&
         part.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The name with its indices taken out.
std::string pattern_of(std::string_view name) {
  std::string pattern;
  for (const std::string_view part : parts_of(name)) {
    pattern += is_index(part) ? "*" : part;
    pattern += '.';
  }
  return pattern;
}

/// "0..2,5" of 0, 1, 2 and 5.
std::string ranges_text(const std::set<int>& indices) {
  std::string text;
  for (auto at = indices.begin(); at != indices.end();) {
    const int first = *at;
    int last = first;
    for (++at; at != indices.end() && *at == last + 1; ++at) last = *at;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += (last == first + 1 ? "," : "..") + std::to_string(last);
  }
  return text;
}

/// Names of one pattern as one.
std::string joined_name(const std::vector<std::string_view>& names) {
  std::vector<std::set<int>> indices;
  for (const std::string_view name : names) {
    std::size_t place = 0;
    for (const std::string_view part : parts_of(name)) {
      if (!is_index(part)) continue;
      if (place == indices.size()) indices.emplace_back();
      indices[place++].insert(std::stoi(std::string(part)));
    }
  }
  std::string joined;
  std::size_t place = 0;
  for (const std::string_view part : parts_of(names.front())) {
    joined += joined.empty() ? "" : ".";
    joined += is_index(part) ? ranges_text(indices[place++]) : std::string(part);
  }
  return joined;
}

}  // namespace

std::vector<AlikeModules> alike_modules(const std::vector<NumberedModule>& modules) {
  std::map<std::pair<std::string, std::int64_t>, std::size_t> places;
  std::vector<AlikeModules> groups;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const RecordedModule& module = modules[i].module;
    const auto [found, is_new] = places.try_emplace(
        {module.kind + " " + pattern_of(module.name), modules[i].value}, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].members.push_back(i);
  }
  for (AlikeModules& group : groups) {
    std::vector<std::string_view> names;
    for (const std::size_t member : group.members) names.push_back(modules[member].module.name);
    group.name = joined_name(names);
  }
  return groups;
}

}  // namespace memest
