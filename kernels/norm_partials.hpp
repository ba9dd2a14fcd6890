// The partial sums over rows that the backward of a norm leaves.
#pragma once

#include <cstdint>

namespace memest::kernels {

/// Partial rows at most: a grid of eight blocks on each of 160 multiprocessors.
inline constexpr std::int64_t kMostPartials = 1280;

}  // namespace memest::kernels
