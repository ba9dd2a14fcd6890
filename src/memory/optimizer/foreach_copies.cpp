#include "memory/optimizer/foreach_copies.hpp"

#include <algorithm>
#include <cmath>

namespace memest {
namespace {

/// Bytes that a block of threads copies in one round: 128 threads, 16 bytes each.
constexpr std::int64_t kBytesOfBlock = 2048;
constexpr std::int64_t kBytesOfEntry = 8;
/// Blocks that are launched for each multiprocessor at most.
constexpr std::int64_t kBlocksOfMultiprocessor = 32;

/// Beyond that every block takes several rounds, as many over its piece as over the ranks; the
/// tables' sizes on the null device of 132 multiprocessors, 2 to 64 ranks, are of this rule.
std::int64_t rounds_of(std::int64_t blocks, std::int64_t ranks, std::int64_t multiprocessors) {
  const double excess = static_cast<double>(blocks) * static_cast<double>(ranks) /
                        static_cast<double>(multiprocessors * kBlocksOfMultiprocessor);
  const auto rounds =
      std::max(std::int64_t{1}, static_cast<std::int64_t>(std::llround(std::sqrt(excess))));
  if (rounds <= ranks) return rounds;
  return static_cast<std::int64_t>(std::ceil(excess / static_cast<double>(ranks)));
}

}  // namespace

std::int64_t CopyPieces::blocks(std::int64_t rounds) const {
  std::int64_t blocks = 0;
  for (const std::int64_t bytes : pieces_) {
    blocks += (bytes + rounds * kBytesOfBlock - 1) / (rounds * kBytesOfBlock);
  }
  return blocks;
}

std::int64_t CopyPieces::bytes_of_split_copy(std::int64_t ranks,
                                             std::int64_t multiprocessors) const {
  const std::int64_t rounds =
      multiprocessors > 0 ? rounds_of(blocks(1), ranks, multiprocessors) : 1;
  return kBytesOfEntry * (4 * count() + 1 + blocks(rounds));
}

std::int64_t CopyPieces::bytes_of_chunk_cat() const {
  return kBytesOfEntry * (6 * count() + 2 + blocks(1));
}

}  // namespace memest
