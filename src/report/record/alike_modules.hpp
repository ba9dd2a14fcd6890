// Modules that are alike as one row: of a class, and at one place of each layer of a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memest/spec/recorded/recorded_work.hpp"

namespace memest {

struct NumberedModule {
  const RecordedModule& module;
  std::int64_t value = 0;  ///< modules are alike where it is equal
};

struct AlikeModules {
  std::string name;                  ///< "model.layers.0..31.mlp"
  std::vector<std::size_t> members;  ///< indices into what was given
};

/// In the order of their first members.
std::vector<AlikeModules> alike_modules(const std::vector<NumberedModule>& modules);

}  // namespace memest
