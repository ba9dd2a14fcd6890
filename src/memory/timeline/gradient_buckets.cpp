#include "gradient_buckets.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// torch.distributed._DEFAULT_FIRST_BUCKET_BYTES.
constexpr std::int64_t kFirstBucket = kMiB;
/// Of the flat copies that the first rank's tensors are sent in, at most so many at once
/// (torch/csrc/distributed/c10d/comm.cpp).
constexpr std::int64_t kBroadcastBytes = 250 * kMiB;
constexpr std::size_t kBroadcastsAtOnce = 2;

struct Bucket {
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
};

/// Buckets that are closed where they reach `first`, the others `cap`.
std::vector<Bucket> buckets_of(const std::vector<std::int64_t>& bytes, std::int64_t first,
                               std::int64_t cap) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (const std::int64_t size : bytes) {
    open.bytes = checked_add(open.bytes, size);
    ++open.tensors;
    if (open.bytes < (buckets.empty() ? first : cap)) continue;
    buckets.push_back(std::exchange(open, {}));
  }
  if (open.tensors > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace

std::vector<std::int64_t> bucket_sizes(const std::vector<std::int64_t>& bytes, std::int64_t cap) {
  std::vector<std::int64_t> sizes;
  for (const Bucket& bucket : buckets_of(bytes, kFirstBucket, cap)) sizes.push_back(bucket.bytes);
  return sizes;
}

GradientBuckets::GradientBuckets(const Job& job, const Inventory& inventory,
                                 const ForwardOrder& order, Recorder& recorder)
    : parallelism_(job.parallelism),
      inventory_(inventory),
      order_(order),
      timeline_(recorder.timeline()),
      recorder_(recorder),
      element_bytes_(size_of(job.training->recipe.gradients)),
      weights_(job.training->recipe.weights) {}

StorageId GradientBuckets::make(LoopTensor tensor, Holding holding, std::int64_t bytes) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.allocate(bytes, label);
}

void GradientBuckets::construct() {
  constructed_ = true;
  compare_shapes();
  broadcast();
  std::int64_t gradients = 0;
  for (const ParameterUse& use : order_.parameters()) {
    if (use.contributions > 0) gradients = checked_add(gradients, use.elements);
  }
  make_buckets({checked_multiply(gradients, element_bytes_)});
}

/// Every rank's number of parameters, then the sizes and strides of all of them.
void GradientBuckets::compare_shapes() {
  std::vector<StorageId> counts;
  for (std::int64_t i = 0; i <= parallelism_.data; ++i) {
    counts.push_back(make(LoopTensor::shapes, Holding::temporaries, size_of(DType::int64)));
  }
  std::int64_t entries = 0;
  for (const TensorPlace& place : timeline_.parameters) {
    const ParameterTensor& row = inventory_.parameters[place.row];
    if (row.trainable) entries += 2 * static_cast<std::int64_t>(row.shape.size());
  }
  recorder_.release(
      make(LoopTensor::shapes, Holding::temporaries, entries * size_of(DType::int64)));
  for (const StorageId count : counts) recorder_.release(count);
}

void GradientBuckets::broadcast() {
  std::vector<std::vector<std::int64_t>> tensors(1);
  for (const TensorPlace& place : timeline_.parameters) {
    tensors.front().push_back(checked_multiply(place.elements, size_of(weights_)));
  }
  std::vector<DType> types = {weights_};
  append_buffers(types, tensors);
  send(tensors);
}

/// Tensors of one type share their flat copies.
void GradientBuckets::append_buffers(std::vector<DType>& types,
                                     std::vector<std::vector<std::int64_t>>& tensors) const {
  for (const TensorPlace& place : timeline_.buffers) {
    const DType type = inventory_.buffers[place.row].dtype;
    const auto known = std::find(types.begin(), types.end(), type);
    const auto group = static_cast<std::size_t>(known - types.begin());
    if (known == types.end()) {
      types.push_back(type);
      tensors.emplace_back();
    }
    tensors[group].push_back(checked_multiply(place.elements, size_of(type)));
  }
}

/// A tensor that is a bucket alone is sent as it lies.
void GradientBuckets::send(const std::vector<std::vector<std::int64_t>>& tensors) {
  std::deque<StorageId> in_flight;
  for (const std::vector<std::int64_t>& of_a_type : tensors) {
    for (const Bucket& bucket : buckets_of(of_a_type, kBroadcastBytes, kBroadcastBytes)) {
      if (in_flight.size() == kBroadcastsAtOnce) {
        recorder_.release(in_flight.front());
        in_flight.pop_front();
      }
      in_flight.push_back(flat_copy(bucket.tensors > 1 ? bucket.bytes : 0));
    }
  }
  for (const StorageId flat : in_flight) recorder_.release(flat);
}

/// None of 0 bytes.
StorageId GradientBuckets::flat_copy(std::int64_t bytes) {
  return make(LoopTensor::broadcast, Holding::collective_buffers, bytes);
}

void GradientBuckets::make_buckets(const std::vector<std::int64_t>& sizes) {
  for (const StorageId bucket : std::exchange(buckets_, {})) recorder_.release(bucket);
  for (const std::int64_t size : sizes) {
    buckets_.push_back(make(LoopTensor::gradient_bucket, Holding::gradients, size));
  }
}

/// The new order is agreed on by all ranks: an index for each gradient, and the buckets' lengths.
void GradientBuckets::rebuild() {
  const std::vector<std::int64_t> sizes =
      bucket_sizes(arrived_, parallelism_.ddp.bucket_cap.value());
  const std::int64_t index = size_of(DType::int32);
  const StorageId order = make(LoopTensor::shapes, Holding::temporaries,
                               index * (static_cast<std::int64_t>(arrived_.size()) + 1));
  recorder_.release(make(LoopTensor::shapes, Holding::temporaries,
                         index * static_cast<std::int64_t>(sizes.size())));
  recorder_.release(order);
  make_buckets(sizes);
}

/// The first rank's buffers are sent before every forward.
void GradientBuckets::before_forward(std::uint32_t instance) {
  if (instance != 0) return;
  if (!constructed_) construct();
  if (has_run_ && !rebuilt_) {
    rebuild();
    rebuilt_ = true;
  }
  std::vector<std::vector<std::int64_t>> buffers;
  std::vector<DType> types;
  append_buffers(types, buffers);
  send(buffers);
}

/// Copied into its bucket; with views, the bucket is the gradient from then on.
bool GradientBuckets::take_gradient(std::uint32_t use, StorageId gradient) {
  if (!has_run_) {
    arrived_.push_back(checked_multiply(order_.parameters()[use].elements, element_bytes_));
  }
  if (parallelism_.ddp.gradient_as_bucket_view) recorder_.release(gradient);
  return parallelism_.ddp.gradient_as_bucket_view;
}

void GradientBuckets::end_backward() { has_run_ = true; }

}  // namespace memest
