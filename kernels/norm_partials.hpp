// Bounds of the backward of norms, which its launcher, its description and the backend share.
#pragma once

#include <cstdint>

namespace memest::kernels {

/// Partial rows of dγ at most: a grid of eight blocks on each of 160 multiprocessors.
inline constexpr std::int64_t kMostPartials = 1280;

/// Bytes of a row that the registers of a block hold: two vectors of 16 bytes of each of 1024
/// threads; 16384 bf16.
inline constexpr std::int64_t kLongestNormRow = 2 * 16 * 1024;

}  // namespace memest::kernels
