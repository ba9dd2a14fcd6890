// How many blocks of how many threads a kernel runs on.
#pragma once

#include <cstdint>

namespace memest::kernels {

/// Blocks in a row; a block's threads are x by y.
struct Grid {
  std::int64_t blocks = 1;
  int x = 1;
  int y = 1;
};

constexpr std::int64_t divided_up(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace memest::kernels
