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
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    open.bytes = checked_add(open.bytes, bytes[i]);
    ++open.tensors;
    if (open.bytes < (buckets.empty() ? first : cap)) continue;
    buckets.push_back(std::exchange(open, TensorBucket{0, 0, i + 1}));
  }
  if (open.tensors > 0) buckets.push_back(open);
  return buckets;
}

void CoalescedBroadcast::add(DType type, std::int64_t bytes) {
  auto known = std::ranges::find(types_, type, &OfType::type);
  if (known == types_.end()) known = types_.insert(known, OfType{type, {}, {}});
  known->bytes.push_back(bytes);
  known->places.push_back(tensors_++);
}

/// A tensor that is a bucket alone is sent as it lies. compute_bucket_assignment_by_size sorts the
/// buckets of all types by the first tensor in each.
void CoalescedBroadcast::write(Recorder& recorder) const {
  std::vector<TensorBucket> sent;
  for (const OfType& type : types_) {
    for (TensorBucket bucket : buckets_of(type.bytes, kBroadcastBytes, kBroadcastBytes)) {
      bucket.first = type.places[bucket.first];
      sent.push_back(bucket);
    }
  }
  std::ranges::sort(sent, {}, &TensorBucket::first);
  const Label label = loop_label(Holding::collective_buffers, LoopTensor::broadcast);
  std::deque<HeldStorage> in_flight;
  for (const TensorBucket& bucket : sent) {
    if (in_flight.size() == kBroadcastsAtOnce) in_flight.pop_front();
    in_flight.push_back(recorder.make(bucket.tensors > 1 ? bucket.bytes : 0, label));
  }
  while (!in_flight.empty()) in_flight.pop_front();
}

}  // namespace memest
