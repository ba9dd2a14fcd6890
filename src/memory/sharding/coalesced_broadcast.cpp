#include "memory/sharding/coalesced_broadcast.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "memest/units/int128.hpp"
#include "memest/units/quantity.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Bytes of a flat copy, and how many of these copies are there at once, at most.
constexpr std::int64_t kBroadcastBytes = 250 * kMiB;
constexpr std::size_t kBroadcastsAtOnce = 2;

}  // namespace

std::vector<TensorBucket> buckets_of(const std::vector<std::int64_t>& bytes, std::int64_t first,
                                     std::int64_t cap) {
  std::vector<TensorBucket> buckets;
  TensorBucket open;
  for (const std::int64_t size : bytes) {
    open.bytes = checked_add(open.bytes, size);
    ++open.tensors;
    if (open.bytes < (buckets.empty() ? first : cap)) continue;
    buckets.push_back(std::exchange(open, {}));
  }
  if (open.tensors > 0) buckets.push_back(open);
  return buckets;
}

void CoalescedBroadcast::add(DType type, std::int64_t bytes) {
  const auto known = std::find(types_.begin(), types_.end(), type);
  const auto group = static_cast<std::size_t>(known - types_.begin());
  if (known == types_.end()) {
    types_.push_back(type);
    bytes_.emplace_back();
  }
  bytes_[group].push_back(bytes);
}

/// A tensor that is a bucket alone is sent as it lies.
void CoalescedBroadcast::write(Recorder& recorder) const {
  const Label label = loop_label(Holding::collective_buffers, LoopTensor::broadcast);
  std::deque<HeldStorage> in_flight;
  for (const std::vector<std::int64_t>& of_a_type : bytes_) {
    for (const TensorBucket& bucket : buckets_of(of_a_type, kBroadcastBytes, kBroadcastBytes)) {
      if (in_flight.size() == kBroadcastsAtOnce) in_flight.pop_front();
      in_flight.push_back(recorder.make(bucket.tensors > 1 ? bucket.bytes : 0, label));
    }
  }
  while (!in_flight.empty()) in_flight.pop_front();
}

}  // namespace memest
