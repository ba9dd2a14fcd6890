// torch.distributed._broadcast_coalesced, PyTorch 2.11 (torch/csrc/distributed/c10d/comm.cpp): the
// first rank's tensors are sent in flat copies, of one type each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// A tensor that goes into a bucket of its type.
struct BucketTensor {
  DType type = DType::fp32;
  std::int64_t bytes = 0;
};
/// A bucket of tensors, one behind the other.
struct TensorBucket {
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
  std::size_t first = 0;  ///< among all that are put into buckets
};
/// The first bucket of a type is closed where it reaches `first`, the others at `cap`.
struct BucketLimits {
  std::int64_t first = 0;
  std::int64_t cap = 0;
};
/// compute_bucket_assignment_by_size (reducer.cpp) of tensors in an order of their own: buckets as
/// they are closed, then what is left of each type.
std::vector<TensorBucket> buckets_of(const std::vector<BucketTensor>& tensors,
                                     const BucketLimits& limits);
/// Buckets of tensors as they are defined, sorted by the first tensor in each.
std::vector<TensorBucket> buckets_by_definition(const std::vector<BucketTensor>& tensors,
                                                const BucketLimits& limits);

/// The tensors that are broadcast, by type.
class CoalescedBroadcast {
 public:
  void add(DType type, std::int64_t bytes) { tensors_.push_back({type, bytes}); }
  void write(Recorder& recorder) const;

 private:
  std::vector<BucketTensor> tensors_;
};

}  // namespace memest
