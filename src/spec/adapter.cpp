#include "memest/spec/adapter.hpp"

#include <algorithm>

namespace memest {

bool adapts(const LoraAdapter& adapter, std::string_view module) {
  return std::any_of(adapter.targets.begin(), adapter.targets.end(),
                     [module](const std::string& target) { return is_named(module, target); });
}

}  // namespace memest
