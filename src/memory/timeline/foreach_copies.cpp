#include "foreach_copies.hpp"

namespace memest {
namespace {

/// Of a block of threads: 128 of them, 16 bytes each.
constexpr std::int64_t kBytesOfBlock = 2048;
constexpr std::int64_t kBytesOfEntry = 8;

}  // namespace

void CopyPieces::add(std::int64_t bytes) {
  ++pieces_;
  blocks_ += (bytes + kBytesOfBlock - 1) / kBytesOfBlock;
}

std::int64_t CopyPieces::bytes_of_split_copy() const {
  return kBytesOfEntry * (4 * pieces_ + 1 + blocks_);
}

std::int64_t CopyPieces::bytes_of_chunk_cat() const {
  return kBytesOfEntry * (6 * pieces_ + 2 + blocks_);
}

}  // namespace memest
