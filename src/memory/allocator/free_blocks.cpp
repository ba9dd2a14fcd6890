#include "free_blocks.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

constexpr unsigned kSizeUnit = 9;     ///< log2 of 512 B, of which every size is a multiple
constexpr unsigned kBinsOfPower = 4;  ///< log2 of the bins of a power of two

/// Without a branch: the outcome of a binary search's comparisons cannot be predicted.
bool is_before(const FreeBlock& entry, std::int64_t size, Address address) {
  const int less = static_cast<int>(entry.size < size);
  const int equal = static_cast<int>(entry.size == size);
  return (less | (equal & static_cast<int>(entry.address < address))) != 0;
}

/// How many entries of the run stand before (size, address).
std::size_t rank_of(const std::vector<FreeBlock>& run, std::int64_t size, Address address) {
  const FreeBlock* const entries = run.data();
  std::size_t rank = 0;
  std::size_t length = run.size();
  while (length > 0) {
    const std::size_t half = (length + 1) / 2;
    rank += is_before(entries[rank + half - 1], size, address) ? half : 0;
    length -= half;
  }
  return rank;
}

}  // namespace

std::size_t FreeBlocks::bin_of(std::int64_t size) {
  const auto units = static_cast<std::uint64_t>(size) >> kSizeUnit;
  const unsigned width = static_cast<unsigned>(std::bit_width(units | (1U << kBinsOfPower)));
  const unsigned power = width - 1 - kBinsOfPower;
  return (std::size_t{power} << kBinsOfPower) + (units >> power);
}

FreeBlocks::Place FreeBlocks::lower_bound(std::size_t bin, std::int64_t size,
                                          Address address) const {
  const Bin& runs = bins_[bin];
  std::size_t low = 0;
  std::size_t length = runs.size() - 1;
  while (length > 0) {
    const std::size_t half = (length + 1) / 2;
    low += is_before(runs[low + half - 1].back(), size, address) ? half : 0;
    length -= half;
  }
  return {bin, low, rank_of(runs[low], size, address)};
}

FreeBlocks::Place FreeBlocks::first_from(std::size_t bin) const {
  std::size_t word = bin / kBitsOfWord;
  if (word >= kWords) return {bins_.size(), 0, 0};
  std::uint64_t bits = held_[word] & (~std::uint64_t{0} << bin % kBitsOfWord);
  while (bits == 0) {
    if (++word == kWords) return {bins_.size(), 0, 0};
    bits = held_[word];
  }
  return {word * kBitsOfWord + static_cast<std::size_t>(std::countr_zero(bits)), 0, 0};
}

FreeBlocks::Place FreeBlocks::first_of_at_least(std::int64_t size) const {
  const std::size_t bin = bin_of(size);
  if (holds_any(bin)) {
    const Place place = lower_bound(bin, size, 0);
    if (place.index < bins_[bin][place.run].size()) return place;
  }
  return first_from(bin + 1);
}

void FreeBlocks::insert(const FreeBlock& entry) {
  const std::size_t number = bin_of(entry.size);
  if (number >= bins_.size()) bins_.resize(number + 1);
  Bin& bin = bins_[number];
  if (bin.empty()) bin.emplace_back();
  held_[number / kBitsOfWord] |= std::uint64_t{1} << number % kBitsOfWord;
  const Place place = lower_bound(number, entry.size, entry.address);
  Run& run = bin[place.run];
  run.insert(run.begin() + static_cast<std::ptrdiff_t>(place.index), entry);
  if (run.size() <= kLongestRun) return;
  const auto middle = run.begin() + kLongestRun / 2;
  Run upper(middle, run.end());
  run.erase(middle, run.end());
  bin.insert(bin.begin() + static_cast<std::ptrdiff_t>(place.run) + 1, std::move(upper));
}

void FreeBlocks::erase(std::int64_t size, Address address) {
  const std::size_t number = bin_of(size);
  expect(holds_any(number), "a free block whose bin holds none");
  Bin& bin = bins_[number];
  const Place place = lower_bound(number, size, address);
  Run& run = bin[place.run];
  expect(place.index < run.size() && run[place.index].size == size &&
             run[place.index].address == address,
         "a free block that is not in its pool");
  run.erase(run.begin() + static_cast<std::ptrdiff_t>(place.index));
  if (!run.empty()) return;
  if (bin.size() > 1) {
    bin.erase(bin.begin() + static_cast<std::ptrdiff_t>(place.run));
    return;
  }
  held_[number / kBitsOfWord] &= ~(std::uint64_t{1} << number % kBitsOfWord);
}

const FreeBlock* FreeBlocks::at(Place place) const {
  return place.bin < bins_.size() ? &bins_[place.bin][place.run][place.index] : nullptr;
}

FreeBlocks::Place FreeBlocks::next(Place place) const {
  const Bin& bin = bins_[place.bin];
  if (++place.index < bin[place.run].size()) return place;
  if (++place.run < bin.size()) return {place.bin, place.run, 0};
  return first_from(place.bin + 1);
}

const FreeBlock* FreeBlocks::largest() const {
  for (std::size_t word = kWords; word-- > 0;) {
    if (held_[word] == 0) continue;
    const std::size_t bin = word * kBitsOfWord + kBitsOfWord - 1 -
                            static_cast<std::size_t>(std::countl_zero(held_[word]));
    return &bins_[bin].back().back();
  }
  return nullptr;
}

void FreeBlocks::append_to(std::vector<std::uint32_t>& blocks) const {
  for (const Bin& bin : bins_) {
    for (const Run& run : bin) {
      for (const FreeBlock& entry : run) blocks.push_back(entry.block);
    }
  }
}

}  // namespace memest
