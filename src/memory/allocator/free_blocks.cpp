#include "memory/allocator/free_blocks.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

constexpr unsigned kSizeUnit = 9;     ///< log2 of 512 B, of which every size is a multiple
constexpr unsigned kBinsOfPower = 4;  ///< log2 of the bins of a power of two

bool is_before(std::int64_t size, Address address, std::int64_t other_size, Address other_address) {
  return size < other_size || (size == other_size && address < other_address);
}

}  // namespace

std::size_t CachingAllocator::FreeBlocks::bin_of(std::int64_t size) {
  // Up to 31 units the bin is the size itself. Above, it is the power of two and its next four
  // bits: 40 units (20 KiB) have power 1 and stand in bin 16 + 40 / 2 = 36, together with 41.
  const auto units = static_cast<std::uint64_t>(size) >> kSizeUnit;
  const unsigned width = static_cast<unsigned>(std::bit_width(units | (1U << kBinsOfPower)));
  const unsigned power = width - 1 - kBinsOfPower;
  return (std::size_t{power} << kBinsOfPower) + (units >> power);
}

CachingAllocator::FreeBlocks::Runs::iterator CachingAllocator::FreeBlocks::run_of(
    Bin& bin, std::span<const Block> blocks, const Block& block) {
  const auto behind =
      std::partition_point(std::next(bin.runs.begin()), bin.runs.end(), [&](const Run& run) {
        const Block& first = blocks[run.first];
        return !is_before(block.size, block.address, first.size, first.address);
      });
  return std::prev(behind);
}

/// In the middle.
void CachingAllocator::FreeBlocks::split(Bin& bin, Runs::iterator run,
                                         std::span<const Block> blocks) {
  Run upper{run->first, run->length - run->length / 2};
  run->length -= upper.length;
  for (std::uint32_t i = 0; i < run->length; ++i) upper.first = blocks[upper.first].after;
  bin.runs.insert(std::next(run), upper);
}

void CachingAllocator::FreeBlocks::insert(std::span<Block> blocks, Index block) {
  Block& entry = blocks[block];
  const std::size_t number = bin_of(entry.size);
  if (number >= bins_.size()) bins_.resize(number + 1);
  held_[number / kBitsOfWord] |= std::uint64_t{1} << number % kBitsOfWord;
  Bin& bin = bins_[number];
  const bool one = bin.runs.empty();
  const auto run = one ? bin.runs.end() : run_of(bin, blocks, entry);
  Index behind = one ? bin.first : run->first;
  Index before = behind == kNoBlock ? kNoBlock : blocks[behind].before;
  while (behind != kNoBlock &&
         is_before(blocks[behind].size, blocks[behind].address, entry.size, entry.address)) {
    before = behind;
    behind = blocks[behind].after;
  }
  entry.before = before;
  entry.after = behind;
  (before == kNoBlock ? bin.first : blocks[before].after) = block;
  if (behind != kNoBlock) blocks[behind].before = block;
  ++bin.length;
  if (one) {
    if (bin.length <= kLongestRun) return;
    bin.runs.push_back({bin.first, bin.length});
    return split(bin, bin.runs.begin(), blocks);
  }
  if (run->first == behind) run->first = block;
  if (++run->length > kLongestRun) split(bin, run, blocks);
}

void CachingAllocator::FreeBlocks::erase(std::span<Block> blocks, Index block) {
  const Block& entry = blocks[block];
  const std::size_t number = bin_of(entry.size);
  Bin& bin = bins_[number];
  if (!bin.runs.empty()) {
    const auto run = run_of(bin, blocks, entry);
    if (run->first == block) run->first = entry.after;
    if (--run->length == 0) bin.runs.erase(run);
    // A single run says no more than the bin itself.
    if (bin.runs.size() == 1) bin.runs.clear();
  }
  (entry.before == kNoBlock ? bin.first : blocks[entry.before].after) = entry.after;
  if (entry.after != kNoBlock) blocks[entry.after].before = entry.before;
  if (--bin.length == 0) {
    held_[number / kBitsOfWord] &= ~(std::uint64_t{1} << number % kBitsOfWord);
  }
}

CachingAllocator::Index CachingAllocator::FreeBlocks::first_from(std::size_t bin) const {
  std::size_t word = bin / kBitsOfWord;
  if (word >= kWords) return kNoBlock;
  std::uint64_t bits = held_[word] & (~std::uint64_t{0} << bin % kBitsOfWord);
  while (bits == 0) {
    if (++word == kWords) return kNoBlock;
    bits = held_[word];
  }
  return bins_[word * kBitsOfWord + static_cast<std::size_t>(std::countr_zero(bits))].first;
}

CachingAllocator::Index CachingAllocator::FreeBlocks::first_of_at_least(
    std::span<const Block> blocks, std::int64_t size) const {
  const std::size_t number = bin_of(size);
  Index block = first_from(number);
  if (block == kNoBlock || blocks[block].size >= size) return block;
  // Smaller, so it is of the same bin, where a larger may stand behind it.
  const Bin& bin = bins_[number];
  if (!bin.runs.empty()) {
    const auto behind =
        std::partition_point(std::next(bin.runs.begin()), bin.runs.end(),
                             [&](const Run& run) { return blocks[run.first].size < size; });
    block = std::prev(behind)->first;
  }
  while (block != kNoBlock && blocks[block].size < size) block = blocks[block].after;
  return block != kNoBlock ? block : first_from(number + 1);
}

CachingAllocator::Index CachingAllocator::FreeBlocks::next(std::span<const Block> blocks,
                                                           Index block) const {
  const Index after = blocks[block].after;
  return after != kNoBlock ? after : first_from(bin_of(blocks[block].size) + 1);
}

CachingAllocator::Index CachingAllocator::FreeBlocks::largest(std::span<const Block> blocks) const {
  for (std::size_t word = kWords; word-- > 0;) {
    if (held_[word] == 0) continue;
    const std::size_t number = word * kBitsOfWord + kBitsOfWord - 1 -
                               static_cast<std::size_t>(std::countl_zero(held_[word]));
    const Bin& bin = bins_[number];
    Index block = bin.runs.empty() ? bin.first : bin.runs.back().first;
    while (blocks[block].after != kNoBlock) block = blocks[block].after;
    return block;
  }
  return kNoBlock;
}

void CachingAllocator::FreeBlocks::append_to(std::span<const Block> blocks,
                                             std::vector<Index>& all) const {
  for (const Bin& bin : bins_) {
    for (Index block = bin.first; block != kNoBlock; block = blocks[block].after) {
      all.push_back(block);
    }
  }
}

}  // namespace memest
