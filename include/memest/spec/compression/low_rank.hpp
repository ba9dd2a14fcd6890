// Factorised linear layers: fewer parameters and FLOPs for one more small activation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace memest {

/// Every linear layer named is two in a row: [rank, in] without a bias, then [out, rank] with the
/// layer's own.
struct LowRank {
  std::int64_t rank = 1;
  std::vector<std::string> modules;  ///< by the end of their names: "up_proj"
};

}  // namespace memest
