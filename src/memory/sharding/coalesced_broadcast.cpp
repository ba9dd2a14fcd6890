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

std::vector<TensorBucket> buckets_of(const std::vector<BucketTensor>& tensors,
                                     const BucketLimits& limits) {
  struct Open {
    DType type = DType::fp32;
    std::int64_t limit = 0;
    TensorBucket bucket;
  };
  std::vector<Open> types;  // as they first came
  std::vector<TensorBucket> buckets;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto open = std::ranges::find(types, tensors[i].type, &Open::type);
    if (open == types.end()) {
      open = types.insert(open, Open{tensors[i].type, limits.first, {}});
    }
    if (open->bucket.tensors == 0) open->bucket.first = i;
    open->bucket.bytes = checked_add(open->bucket.bytes, tensors[i].bytes);
    ++open->bucket.tensors;
    if (open->bucket.bytes < open->limit) continue;
    buckets.push_back(std::exchange(open->bucket, {}));
    open->limit = limits.cap;
  }
  // std::unordered_map of libstdc++ lists what came last first.
  for (auto open = types.rbegin(); open != types.rend(); ++open) {
    if (open->bucket.tensors > 0) buckets.push_back(open->bucket);
  }
  return buckets;
}

std::vector<TensorBucket> buckets_by_definition(const std::vector<BucketTensor>& tensors,
                                                const BucketLimits& limits) {
  std::vector<TensorBucket> buckets = buckets_of(tensors, limits);
  std::ranges::sort(buckets, {}, &TensorBucket::first);
  return buckets;
}

/// A tensor that is a bucket alone is sent as it lies.
void CoalescedBroadcast::write(Recorder& recorder) const {
  const std::vector<TensorBucket> sent =
      buckets_by_definition(tensors_, {kBroadcastBytes, kBroadcastBytes});
  const Label label = loop_label(Holding::collective_buffers, LoopTensor::broadcast);
  std::deque<HeldStorage> in_flight;
  for (const TensorBucket& bucket : sent) {
    if (in_flight.size() == kBroadcastsAtOnce) in_flight.pop_front();
    in_flight.push_back(recorder.make(bucket.tensors > 1 ? bucket.bytes : 0, label));
  }
  while (!in_flight.empty()) in_flight.pop_front();
}

}  // namespace memest
