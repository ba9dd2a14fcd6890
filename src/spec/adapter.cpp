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

std::string_view name_of(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::lora:
      return "lora";
    case AdapterKind::dora:
      return "dora";
    case AdapterKind::ia3:
      return "ia3";
    case AdapterKind::vera:
      return "vera";
    case AdapterKind::prompt_tuning:
      return "prompt_tuning";
    case AdapterKind::p_tuning:
      return "p_tuning";
  }
  return {};
}

bool adapts(const Adapter& adapter, std::string_view module) {
  return any_names(adapter.targets, module);
}

bool scales_input(const Adapter& adapter, std::string_view module) {
  return any_names(adapter.scaled_inputs, module);
}

bool trains_whole(const Adapter& adapter, std::string_view module) {
  return any_names(adapter.whole_modules, module);
}

}  // namespace memest
