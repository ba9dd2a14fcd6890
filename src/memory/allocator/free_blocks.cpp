#include "free_blocks.hpp"

#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// Without a branch: the outcome of a binary search's comparisons cannot be predicted.
bool is_before(const FreeBlock& entry, std::int64_t size, Address address) {
  const int less = static_cast<int>(entry.size < size);
  const int equal = static_cast<int>(entry.size == size);
  return (less | (equal & static_cast<int>(entry.address < address))) != 0;
}

/// How many entries of the run stand before (size, address).
std::size_t rank_of(const std::vector<FreeBlock>& run, std::int64_t size, Address address) {
  std::size_t rank = 0;
  std::size_t length = run.size();
  while (length > 0) {
    const std::size_t half = (length + 1) / 2;
    rank += is_before(run[rank + half - 1], size, address) ? half : 0;
    length -= half;
  }
  return rank;
}

}  // namespace

std::size_t FreeBlocks::run_of(std::int64_t size, Address address) const {
  std::size_t low = 0;
  std::size_t length = runs_.size() - 1;
  while (length > 0) {
    const std::size_t half = (length + 1) / 2;
    low += is_before(runs_[low + half - 1].back(), size, address) ? half : 0;
    length -= half;
  }
  return low;
}

FreeBlocks::Place FreeBlocks::lower_bound(std::int64_t size, Address address) const {
  const std::size_t run = run_of(size, address);
  return {run, rank_of(runs_[run], size, address)};
}

void FreeBlocks::insert(const FreeBlock& entry) {
  const Place place = lower_bound(entry.size, entry.address);
  Run& run = runs_[place.run];
  run.insert(run.begin() + static_cast<std::ptrdiff_t>(place.index), entry);
  if (run.size() <= kLongestRun) return;
  const auto middle = run.begin() + kLongestRun / 2;
  Run upper(middle, run.end());
  run.erase(middle, run.end());
  runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(place.run) + 1, std::move(upper));
}

void FreeBlocks::erase(std::int64_t size, Address address) {
  const Place place = lower_bound(size, address);
  const FreeBlock* entry = at(place);
  expect(entry != nullptr && entry->size == size && entry->address == address,
         "a free block that is not in its pool");
  Run& run = runs_[place.run];
  run.erase(run.begin() + static_cast<std::ptrdiff_t>(place.index));
  if (run.empty() && runs_.size() > 1) {
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(place.run));
  }
}

const FreeBlock* FreeBlocks::at(Place place) const {
  const Run& run = runs_[place.run];
  return place.index < run.size() ? &run[place.index] : nullptr;
}

FreeBlocks::Place FreeBlocks::next(Place place) const {
  ++place.index;
  const bool last_run = place.run + 1 == runs_.size();
  return place.index < runs_[place.run].size() || last_run ? place : Place{place.run + 1, 0};
}

const FreeBlock* FreeBlocks::largest() const {
  return runs_.back().empty() ? nullptr : &runs_.back().back();
}

void FreeBlocks::append_to(std::vector<std::uint32_t>& blocks) const {
  for (const Run& run : runs_) {
    for (const FreeBlock& entry : run) blocks.push_back(entry.block);
  }
}

}  // namespace memest
