#include "plan/layouts/candidate_outside.hpp"

#include <algorithm>

#include "memest/memory/stage_form.hpp"
#include "memest/memory/unfollowed.hpp"

namespace memest {

OutsideBytes CandidateOutside::of(const Parallelism& layout, const BatchChoice& batch) {
  OutsideBytes outside = of_shards(layout.shard_ranks());
  if (!unfollowed_of_sample_) {
    Job larger = job_;
    ++larger.training->micro_batch;
    unfollowed_of_sample_ = most_unfollowed_bytes(larger) - most_unfollowed_bytes(job_);
  }
  const Bytes buffers = dispatch_buffer_bytes(job_, layout, batch.micro_batch);
  outside.expected += buffers;
  outside.low += buffers;
  outside.high += buffers;
  outside.high += *unfollowed_of_sample_ * (batch.micro_batch - job_.training->micro_batch);
  return outside;
}

/// Two ranks that share hold less than more of them do, and more alike.
const OutsideBytes& CandidateOutside::of_shards(std::int64_t shard_ranks) {
  constexpr std::int64_t kAlike = 3;
  std::optional<OutsideBytes>& known =
      known_[static_cast<std::size_t>(std::min(shard_ranks, kAlike))];
  if (!known) {
    Job job = job_;
    job.hardware.gpu = gpu_;
    job.parallelism = Parallelism();
    job.parallelism.data = shard_ranks;
    known = outside_bytes(job);
  }
  return *known;
}

}  // namespace memest
