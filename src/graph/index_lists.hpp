// Short lists of tensors or storages without repetition.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace memest {

inline bool has(const std::vector<std::uint32_t>& list, std::uint32_t index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

inline void add_once(std::vector<std::uint32_t>& list, std::uint32_t index) {
  if (!has(list, index)) list.push_back(index);
}

}  // namespace memest
