#include "memest/spec/adapter.hpp"

#include <algorithm>

namespace memest {

namespace {

// peft's check_target_module_exists: key.endswith(f".{target_key}").
bool any_names(const std::vector<std::string>& targets, std::string_view module) {
  return std::any_of(targets.begin(), targets.end(),
                     [module](const std::string& target) { return is_named(module, target); });
}

}  // namespace

bool adapts(const LoraAdapter& adapter, std::string_view module) {
  return any_names(adapter.targets, module);
}

bool trains_whole(const LoraAdapter& adapter, std::string_view module) {
  return any_names(adapter.whole_modules, module);
}

}  // namespace memest
