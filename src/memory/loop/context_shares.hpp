// A batch of whole sequences cut over context-parallel ranks, as torchtitan does it with the
// head-tail load balancer: what is cut is put in the order of the ranks, and the rank's part is
// copied out. 0.2.2 (prepare_context_parallel_input) cuts inputs, labels and positions. 0.1.0
// (torch.distributed.tensor.experimental.context_parallel around a step) cuts inputs, labels and
// the model's table of rotations, of which it keeps a copy, and writes the parts into what they are
// of.
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
  /// Whether they stand in for the batch; else they are written into its tensors.
  [[nodiscard]] bool stand_in() const { return cuts() && !in_place(); }
  /// Makes the shares of a whole batch of `sequences`, which the caller holds.
  void make(std::int64_t sequences);
  [[nodiscard]] StorageId inputs() const { return shares_[0].id(); }
  [[nodiscard]] StorageId labels() const { return shares_[1].id(); }
  /// The function that was given them returns.
  void drop();

 private:
  [[nodiscard]] bool in_place() const { return table_bytes_ > 0; }
  /// The rank's part of `bytes`, which are put in order first.
  HeldStorage share_of(std::int64_t bytes, LoopTensor tensor);
  void write_in_place();

  Recorder& recorder_;
  std::int64_t ranks_ = 1;
  std::int64_t seq_len_ = 0;
  std::int64_t table_bytes_ = 0;  ///< of the rotations that are cut
  HeldStorage table_;             ///< as it was
  HeldStorage last_copy_;         ///< of the part that was written last
  std::array<HeldStorage, 3> shares_;
};

}  // namespace memest
