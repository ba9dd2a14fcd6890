// Short lists of values without repetition, as a compiled region's kernels read and make them.
#pragma once

#include <algorithm>
#include <vector>

#include "memest/graph/tensor.hpp"

namespace memest {

inline bool has(const std::vector<TensorId>& list, TensorId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

inline void add_once(std::vector<TensorId>& list, TensorId id) {
  if (!has(list, id)) list.push_back(id);
}

}  // namespace memest
