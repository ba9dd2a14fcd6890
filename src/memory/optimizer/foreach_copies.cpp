#include "memory/optimizer/foreach_copies.hpp"

#include <algorithm>
#include <cmath>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Bytes that a block of threads copies in one round: 128 threads, 16 bytes each.
constexpr std::int64_t kBytesOfBlock = 2048;
constexpr std::int64_t kBytesOfEntry = 8;
/// Blocks that are launched for each multiprocessor at most.
constexpr std::int64_t kBlocksOfMultiprocessor = 32;

std::int64_t divided_up(std::int64_t all, std::int64_t parts) { return (all + parts - 1) / parts; }

/// split_with_sizes_copy_out_cuda_contiguous_no_cast: beyond that every thread copies more than 16
/// bytes, which is spread evenly over the ranks' chunks that a block takes and the rounds in which
/// it takes one.
std::int64_t rounds_of(std::int64_t blocks, std::int64_t ranks, std::int64_t multiprocessors) {
  const std::int64_t factor =
      divided_up(checked_multiply(blocks, ranks), multiprocessors * kBlocksOfMultiprocessor);
  const auto chunks = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(factor))));
  return divided_up(factor, std::min(chunks, ranks));
}

}  // namespace

std::int64_t CopyPieces::blocks(std::int64_t rounds) const {
  std::int64_t blocks = 0;
  for (const std::int64_t bytes : pieces_) {
    blocks += divided_up(bytes, rounds * kBytesOfBlock);
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
