// Indexing.cu, Sort.cpp and GroupMM.cu of PyTorch 2.11: what routing tokens to experts asks for;
// TensorTopK.cu: the search for the largest.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "graph/scratch/radix_sort.hpp"
#include "graph/scratch/scratch_sequence.hpp"
#include "memest/graph/kernel_scratch.hpp"

namespace memest {
namespace {

constexpr std::int64_t kSortedIndexBytes = 8;  ///< int64

/// Bits that tell `values` values apart, one at the least.
std::int64_t bits_of(std::int64_t values) {
  std::int64_t bits = 1;
  for (std::int64_t rest = (values - 1) / 2; rest > 0; rest /= 2) ++bits;
  return bits;
}

}  // namespace

ScratchSteps sort_scratch(std::int64_t items, const LaunchDevice& device) {
  constexpr std::int64_t kSmall = 4096;  // sorted by one block in place
  constexpr std::int64_t kKeyBits = 64;
  ScratchSequence sequence;
  const std::int64_t numbers = sequence.allocate(product(items, kSortedIndexBytes));
  if (items > kSmall) {
    sequence.release(sequence.allocate(radix_sort_bytes(items, kKeyBits, device.sort_tile)));
  }
  sequence.release(numbers);
  return sequence.take();
}

namespace {

struct Indices {
  std::int64_t count = 0;
  std::int64_t rows = 0;  ///< that they are of
};

/// Sorted indices, their order, the numbers that become it, and what sorting asks for; then all of
/// these go, and `kept` before them.
void order_indices(ScratchSequence& sequence, std::vector<std::int64_t> kept,
                   const Indices& indices, const LaunchDevice& device) {
  const std::int64_t each = product(indices.count, kSortedIndexBytes);
  for (int i = 0; i < 3; ++i) kept.push_back(sequence.allocate(each));
  // The sort reads no more bits than the largest index has (cuda::cub::get_num_bits): 13 for 8192
  // rows, in two sweeps of 8 instead of eight.
  const std::int64_t bits = bits_of(indices.rows);
  kept.push_back(sequence.allocate(radix_sort_bytes(indices.count, bits, device.sort_tile)));
  for (auto block = kept.rbegin(); block != kept.rend(); ++block) sequence.release(*block);
}

}  // namespace

ScratchSteps index_order_scratch(std::int64_t indices, std::int64_t rows,
                                 const LaunchDevice& device) {
  ScratchSequence sequence;
  order_indices(sequence, {}, {indices, rows}, device);
  return sequence.take();
}

// index_put_with_sort_kernel.
ScratchSteps index_sum_scratch(const IndexSum& sum, const LaunchDevice& device) {
  const auto [indices, rows, narrow] = sum;
  const std::int64_t each = product(indices, kSortedIndexBytes);
  ScratchSequence sequence;
  const std::int64_t widened = narrow ? sequence.allocate(each) : 0;
  // computeLinearIndex wraps negative indices first and then counts elements instead of rows.
  const std::int64_t wrapped = sequence.allocate(each);
  const std::int64_t strided = sequence.allocate(each);
  sequence.release(wrapped);
  if (narrow) sequence.release(widened);
  order_indices(sequence, {strided}, {indices, rows}, device);
  return sequence.take();
}

ScratchSteps host_index_sum_scratch(std::int64_t indices, std::int64_t rows,
                                    const LaunchDevice& device) {
  ScratchSequence sequence;
  const std::int64_t strided = sequence.allocate(product(indices, kSortedIndexBytes));
  order_indices(sequence, {strided}, {indices, rows}, device);
  return sequence.take();
}

// Nonzero.cu: cub::DeviceReduce::Sum of the flags, a sum of 4 bytes for each of five waves of
// blocks of 256 threads; and cub::DeviceSelect::Flagged, whose tiles have states of 8 bytes.
ScratchSteps count_flags_scratch(std::int64_t items, const LaunchDevice& device) {
  constexpr std::int64_t kSmall = 4096;  // summed by one block
  constexpr std::int64_t kThreads = 256;
  constexpr std::int64_t kWaves = 5;
  constexpr std::int64_t kSumBytes = 4;
  const std::int64_t blocks =
      product(device.multiprocessors, kWaves, device.threads_per_multiprocessor / kThreads);
  ScratchSequence sequence;
  sequence.release(
      sequence.allocate(items <= kSmall ? 1 : cub_aligned(blocks * kSumBytes) + kCubAlignment - 1));
  return sequence.take();
}

ScratchSteps select_flags_scratch(std::int64_t items, const LaunchDevice& device) {
  constexpr std::int64_t kStateBytes = 8;
  ScratchSequence sequence;
  sequence.release(sequence.allocate(scan_bytes(items, device.select_tile, kStateBytes)));
  return sequence.take();
}

// TensorTopK.cu: rows are searched by many blocks each (mbtopk) where they are long and few.
ScratchSteps top_k_scratch(std::int64_t slices, std::int64_t size, const LaunchDevice& device) {
  struct Row {
    std::int64_t slices;  ///< up to so many
    std::int64_t size;    ///< from so many numbers on
  };
  // launch_gather_topk_kernel, use_mbtopk.
  constexpr auto kSearched = std::to_array<Row>({{20, 20'000},
                                                 {40, 10'000},
                                                 {80, 8'000},
                                                 {199, 5'000},
                                                 {799, 3'000},
                                                 {4'000, 800},
                                                 {std::numeric_limits<std::int64_t>::max(), 400}});
  const auto row = std::find_if(kSearched.begin(), kSearched.end(),
                                [slices](const Row& one) { return slices <= one.slices; });
  if (size < row->size) return {};
  // get_items_per_thread: 65,536 registers of a multiprocessor over 40 of each of 256 threads are
  // six blocks.
  constexpr std::int64_t kThreads = 256;
  constexpr std::int64_t kBlocksOfMultiprocessor = 6;
  constexpr std::int64_t kDigits = 256;
  const std::int64_t resident = product(device.multiprocessors, kBlocksOfMultiprocessor, kThreads);
  const std::int64_t items =
      std::clamp<std::int64_t>(blocks_of(product(slices, size), resident), 4, 64);
  const std::int64_t blocks = product(slices, blocks_of(size, items * kThreads));
  // InclusiveSumByKey of the blocks' counts, of a few tiles (CUB 3.0).
  constexpr std::int64_t kSumByKey = 1279;
  ScratchSequence sequence;
  std::vector<std::int64_t> kept;
  kept.push_back(sequence.allocate(4 * slices));                        // values of the k-th
  kept.push_back(sequence.allocate(product(std::int64_t{8}, slices)));  // k still to find, twice
  kept.push_back(sequence.allocate(product(std::int64_t{8}, slices)));  // digits so far, twice
  kept.push_back(sequence.allocate(product(blocks, kDigits, 2)));
  kept.push_back(sequence.allocate(product(slices, kDigits, 4)));
  for (int i = 0; i < 2; ++i) kept.push_back(sequence.allocate(product(blocks, 4)));
  for (int i = 0; i < 2; ++i) sequence.release(sequence.allocate(kSumByKey));
  for (auto block = kept.rbegin(); block != kept.rend(); ++block) sequence.release(*block);
  return sequence.take();
}

ScratchSteps grouped_product_scratch(const GroupedProduct& product, const LaunchDevice& device) {
  constexpr std::int64_t kSmallSide = 128;
  constexpr std::int64_t kPointerBytes = 8;  // of three matrices, 16 B at a time
  constexpr std::int64_t kStrideBytes = 8;   // of three matrices
  constexpr std::int64_t kSizesBytes = 12;   // m, n, k in int32
  // Other capabilities than 9.0 and 10.x have no CUTLASS kernel for _grouped_mm: there it is a loop
  // over plain products (native/GroupedMMUtils.h: _grouped_mm_fallback).
  if (device.grouped_small == 0) return {};
  const std::int64_t aligned = blocks_of(product.groups, std::int64_t{2}) * 2;
  const bool is_small = std::min(product.rows, product.columns) <= kSmallSide;
  ScratchSequence sequence;
  const std::int64_t arguments = sequence.allocate(
      3 * kPointerBytes * aligned + (3 * kStrideBytes + kSizesBytes) * product.groups);
  sequence.release(sequence.allocate(memest::product(
      device.multiprocessors, is_small ? device.grouped_small : device.grouped_large)));
  sequence.release(arguments);
  return sequence.take();
}

}  // namespace memest
