// Writes the allocations of an operation down in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <utility>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/units/int128.hpp"

namespace memest {

class ScratchSequence {
 public:
  std::int64_t allocate(std::int64_t bytes) { return add(ScratchStep::Kind::allocate, bytes); }
  std::int64_t result(std::int64_t bytes) { return add(ScratchStep::Kind::result, bytes); }
  std::int64_t replace(std::int64_t bytes) { return add(ScratchStep::Kind::replacement, bytes); }
  void release(std::int64_t block) {
    // From the end: what is released was made shortly before.
    const auto made =
        std::ranges::find_if(steps_ | std::views::reverse, [&](const ScratchStep& step) {
          return step.block == block && step.kind != ScratchStep::Kind::release;
        });
    steps_.push_back({ScratchStep::Kind::release, block, made->bytes});
  }
  /// A sequence of an operation that this one calls.
  void append(const ScratchSteps& steps) {
    const std::int64_t first = blocks_;
    for (ScratchStep step : steps) {
      step.block += first;
      blocks_ = std::max(blocks_, step.block + 1);
      steps_.push_back(step);
    }
  }
  ScratchSteps take() { return std::move(steps_); }

 private:
  std::int64_t add(ScratchStep::Kind kind, std::int64_t bytes) {
    steps_.push_back({kind, blocks_, bytes});
    return blocks_++;
  }

  ScratchSteps steps_;
  std::int64_t blocks_ = 0;
};

/// Bytes of a row of factors; throws OverflowError.
template <class... Factors>
std::int64_t product(std::int64_t first, Factors... rest) {
  ((first = checked_multiply<std::int64_t>(first, rest)), ...);
  return first;
}

/// Quotient, rounded up, of a number that is not negative by a positive one.
constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t block) {
  return count / block + (count % block != 0 ? 1 : 0);
}

}  // namespace memest
