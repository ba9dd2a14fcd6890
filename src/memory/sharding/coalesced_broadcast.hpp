// torch.distributed._broadcast_coalesced, PyTorch 2.11 (torch/csrc/distributed/c10d/comm.cpp): the
// first rank's tensors are sent in flat copies, of one type each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// A bucket of tensors, one behind the other.
struct TensorBucket {
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
  std::size_t first = 0;  ///< among all that are put into buckets
};
/// Buckets that are closed where they reach `first`, the others `cap`.
std::vector<TensorBucket> buckets_of(const std::vector<std::int64_t>& bytes, std::int64_t first,
                                     std::int64_t cap);

/// The tensors that are broadcast, by type.
class CoalescedBroadcast {
 public:
  void add(DType type, std::int64_t bytes);
  void write(Recorder& recorder) const;

 private:
  struct OfType {
    DType type = DType::fp32;
    std::vector<std::int64_t> bytes;
    std::vector<std::size_t> places;  // among the tensors of all types
  };
  std::vector<OfType> types_;  // as they first came
  std::size_t tensors_ = 0;
};

}  // namespace memest
