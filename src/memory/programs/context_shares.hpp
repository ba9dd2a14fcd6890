// A batch of whole sequences cut over context-parallel ranks, as torchtitan 0.2.2 does it
// (prepare_context_parallel_input with the head-tail load balancer): inputs, labels and positions
// are put in the order of the ranks, and the rank's part is copied out.
#pragma once

#include <array>

#include "memest/spec/job.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class ContextShares {
 public:
  ContextShares(const Job& job, Recorder& recorder);

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }
  /// Whether sequences are cut at all.
  [[nodiscard]] bool cuts() const { return ranks_ > 1; }
  /// Makes the shares of a whole batch of `sequences`, which the caller holds.
  void make(std::int64_t sequences);
  [[nodiscard]] StorageId inputs() const { return shares_[0].id(); }
  [[nodiscard]] StorageId labels() const { return shares_[1].id(); }
  /// The function that was given them returns.
  void drop();

 private:
  Recorder& recorder_;
  std::int64_t ranks_ = 1;
  std::int64_t seq_len_ = 0;
  std::array<HeldStorage, 3> shares_;
};

}  // namespace memest
