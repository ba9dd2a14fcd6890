// EmbeddingBackwardKernel.cu of PyTorch 2.11: the tokens are sorted, equal ones found, and each run
// of them summed in pieces of ten rows. The order of allocations is ATen's; the two rules of the
// kernel for few rows (kBlocksPerMultiprocessor, kLongRuns) were inferred from recorded thresholds.
#include <algorithm>
#include <ranges>

#include "graph/scratch/radix_sort.hpp"
#include "graph/scratch/scratch_sequence.hpp"
#include "memest/graph/kernel_scratch.hpp"

namespace memest {
namespace {

constexpr std::int64_t kIndexBytes = 8;  ///< int64
// NROWS_PER_THREAD.
constexpr std::int64_t kRowsPerPiece = 10;
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kBlockThreads = 1024;
constexpr std::int64_t kBlocksPerMultiprocessor = 4;
constexpr std::int64_t kLongRuns = 4;

constexpr std::int64_t kScanTile = 896;  // 128 threads of 7; the same on every capability

/// One block per run would leave the GPU idle while each has many pieces: then a kernel adds the
/// pieces up in place, in the gradient itself where it is of the accumulating type.
bool adds_in_place(const EmbeddingBackward& embedding, std::int64_t runs,
                   const LaunchDevice& device) {
  const std::int64_t threads = blocks_of(embedding.width, kWarp) * kWarp;
  const std::int64_t grid = blocks_of(product(runs, threads), std::min(threads, kBlockThreads));
  return grid < kBlocksPerMultiprocessor * device.multiprocessors &&
         embedding.indices / kRowsPerPiece + runs > kLongRuns * grid;
}

}  // namespace

std::int64_t radix_sort_bytes(std::int64_t pairs, std::int64_t bits, std::int64_t tile) {
  constexpr std::int64_t kSingleTile = 2304;  // 256 threads of 9 pairs
  constexpr std::int64_t kDigitBits = 8;
  constexpr std::int64_t kDigits = 256;
  constexpr std::int64_t kMostPairs = (std::int64_t{1} << 28) - 1;
  constexpr std::int64_t kCounterBytes = 4;
  // DeviceRadixSortSingleTileKernel sorts so few without memory; CUB asks for one byte.
  if (pairs <= kSingleTile) return 1;
  const std::int64_t passes = blocks_of(bits, kDigitBits);
  const std::int64_t portion = kMostPairs / tile * tile;
  const std::int64_t portions = blocks_of(pairs, portion);
  const std::int64_t histograms = portions * passes * kDigits * kIndexBytes;
  // DeviceRadixSort's onesweep: histograms of each digit, the look-back of one portion of tiles, a
  // second pair of keys and values to sort to and fro, and a counter per pass.
  const std::int64_t lookback = blocks_of(std::min(pairs, portion), tile) * kDigits * kCounterBytes;
  // One sweep goes from the keys to the result.
  const std::int64_t copies = passes > 1 ? 2 * cub_aligned(product(pairs, kIndexBytes)) : 0;
  return cub_aligned(histograms) + cub_aligned(lookback) + copies +
         cub_aligned(portions * passes * kCounterBytes) + kCubAlignment - 1;
}

ScratchSteps embedding_backward_scratch(const EmbeddingBackward& embedding,
                                        const LaunchDevice& device) {
  constexpr std::int64_t kAccumulateBytes = 4;  // fp32
  constexpr std::int64_t kKeyBits = 64;
  const std::int64_t gradient = product(embedding.rows, embedding.width, embedding.element_bytes);
  ScratchSequence sequence;
  // Embedding.cu, embedding_dense_backward_cuda: few tokens go to a kernel that sorts nothing and
  // needs the zeroed gradient alone.
  if (embedding.indices <= kUnsortedTokens) {
    sequence.result(gradient);
    return sequence.take();
  }
  const std::int64_t tokens = product(embedding.indices, kIndexBytes);
  const std::int64_t runs = std::min(embedding.indices, embedding.rows);
  // A bound known without reading back: each run may end with one short piece. 8192 tokens of a
  // vocabulary of 32000 are at most 819 + 8192 pieces.
  const std::int64_t pieces = embedding.indices / kRowsPerPiece + runs;
  const bool in_place = adds_in_place(embedding, runs, device);

  const auto held_for = [&](std::int64_t bytes) { sequence.release(sequence.allocate(bytes)); };
  // orig_indices and sorted_indices of embedding_dense_backward_cuda live until the kernel returns;
  // the numbers 0, 1, 2 ... that the sort carries along go behind it.
  std::vector<std::int64_t> kept = {sequence.allocate(tokens), sequence.allocate(tokens)};
  const std::int64_t order = sequence.allocate(tokens);
  held_for(radix_sort_bytes(embedding.indices, kKeyBits, device.sort_tile));
  sequence.release(order);
  sequence.result(gradient);
  kept.push_back(sequence.allocate(tokens));       // where runs start
  kept.push_back(sequence.allocate(kIndexBytes));  // how many there are
  const std::int64_t unique = sequence.allocate(tokens);
  held_for(scan_bytes(embedding.indices, device.unique_tile));
  sequence.release(unique);
  kept.push_back(sequence.allocate(runs * kIndexBytes));  // pieces per run
  kept.push_back(sequence.allocate(runs * kIndexBytes));  // pieces before it
  held_for(scan_bytes(runs, kScanTile));
  kept.push_back(sequence.allocate(kIndexBytes));  // pieces in all
  kept.push_back(sequence.allocate(pieces * kIndexBytes));
  if (in_place) kept.push_back(sequence.allocate(pieces * kIndexBytes));
  if (!in_place || embedding.element_bytes != kAccumulateBytes) {
    // grad_weight_per_segment has the accumulating type: 9011 pieces of 4096 channels are
    // 9011·4096·4 B = 148 MB, though the weight is bf16.
    const std::int64_t sums = in_place ? runs : pieces;
    kept.push_back(sequence.allocate(product(sums, embedding.width, kAccumulateBytes)));
  }
  for (const auto block : std::views::reverse(kept)) sequence.release(block);
  return sequence.take();
}

ScratchSteps scan_scratch(std::int64_t items, std::int64_t element_bytes) {
  constexpr std::int64_t kNarrowTile = 1920;  // 128 threads of 15 elements of 4 bytes
  constexpr std::int64_t kNarrowStateBytes = 8;
  constexpr std::int64_t kNarrow = 4;
  const bool narrow = element_bytes <= kNarrow;
  ScratchSequence sequence;
  sequence.release(sequence.allocate(narrow ? scan_bytes(items, kNarrowTile, kNarrowStateBytes)
                                            : scan_bytes(items, kScanTile)));
  return sequence.take();
}

}  // namespace memest
