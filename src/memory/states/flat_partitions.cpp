#include "memory/states/flat_partitions.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// nccl_start_alignment_factor: partitions begin at multiples of two elements.
constexpr std::int64_t kAlignment = 2;

}  // namespace

FlatPartitions::FlatPartitions(std::vector<std::int64_t> elements, std::int64_t ranks)
    : elements_(std::move(elements)), ranks_(ranks) {
  std::int64_t end = 0;
  for (const std::int64_t size : elements_) {
    begins_.push_back(end);
    end = checked_add(end, size);
  }
  // flatten_dense_tensors_aligned pads the whole to 2 · ranks elements: 9 elements over 4 ranks
  // become 16, 4 a rank, and the last rank has padding alone.
  const std::int64_t unit = checked_multiply(kAlignment, ranks_);
  partition_ = checked_multiply(checked_add(end, unit - 1) / unit, kAlignment);
}

std::int64_t FlatPartitions::first_rank(std::size_t parameter) const {
  return begins_[parameter] / partition_;
}

std::int64_t FlatPartitions::last_rank(std::size_t parameter) const {
  // An empty parameter lies in the partition where it begins.
  const std::int64_t size = std::max<std::int64_t>(elements_[parameter], 1);
  return (begins_[parameter] + size - 1) / partition_;
}

std::int64_t FlatPartitions::piece(std::size_t parameter, std::int64_t rank) const {
  const std::int64_t begin = checked_multiply(rank, partition_);
  const std::int64_t end = checked_add(begin, partition_);
  return std::min(begins_[parameter] + elements_[parameter], end) -
         std::max(begins_[parameter], begin);
}

std::size_t FlatPartitions::first_of(std::int64_t rank) const {
  std::size_t first = 0;
  // Bisects: last_rank never falls from one parameter to the next.
  for (std::size_t left = elements_.size(); left > 0;) {
    const std::size_t half = left / 2;
    const bool is_before = last_rank(first + half) < rank;
    if (is_before) first += half + 1;
    left = is_before ? left - half - 1 : half;
  }
  return first;
}

std::vector<std::int64_t> FlatPartitions::pieces(std::int64_t rank) const {
  std::vector<std::int64_t> pieces;
  for (std::size_t i = first_of(rank); i < elements_.size() && reaches(i, rank); ++i) {
    pieces.push_back(piece(i, rank));
  }
  return pieces;
}

std::int64_t FlatPartitions::largest() const {
  const auto most = std::max_element(elements_.begin(), elements_.end());
  return most == elements_.end() ? 0 : *most;
}

std::int64_t FlatPartitions::reaching(std::int64_t rank) const {
  std::int64_t total = 0;
  for (std::size_t i = first_of(rank); i < elements_.size() && reaches(i, rank); ++i) {
    total = checked_add(total, elements_[i]);
  }
  return total;
}

std::int64_t deepspeed_rank(const Job& job) {
  return zero_stage_of(sharding_of(job)) == ZeroStage::optimizer_gradients
             ? job.parallelism.data - 1
             : 0;
}

bool sums_whole_gradients(const Job& job) {
  const Recipe& recipe = job.training->recipe;
  const Sharding sharding = sharding_of(job);
  const auto* zero = std::get_if<DeepSpeedZero>(&sharding);
  return zero != nullptr && zero->stage == ZeroStage::optimizer &&
         size_of(recipe.gradients) > size_of(recipe.weights);
}

}  // namespace memest
