// The keys of a spec with their dots.
#include <algorithm>
#include <string>
#include <vector>

#include "memest/reader/schema.hpp"
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

void add(std::span<const Key> keys, const std::string& before, std::vector<std::string>& dotted) {
  for (const Key& key : keys) {
    if (!key.later.empty()) continue;
    const std::string name = before + std::string(key.name);
    bool takes_value = false;
    for (const KeyShape& shape : key.shapes) {
      if (shape.form == Form::table) {
        add(shape.keys, name + '.', dotted);
      } else {
        takes_value = takes_value || shape.form != Form::none;
      }
    }
    if (takes_value) dotted.push_back(name);
  }
}

}  // namespace

std::vector<std::string> dotted_keys() {
  std::vector<std::string> dotted;
  add(spec_keys(), "", dotted);
  std::ranges::sort(dotted);
  const auto repeated = std::ranges::unique(dotted);
  dotted.erase(repeated.begin(), repeated.end());
  return dotted;
}

}  // namespace memest
