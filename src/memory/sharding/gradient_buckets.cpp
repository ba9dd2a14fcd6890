#include "memory/sharding/gradient_buckets.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "memest/spec/parallel/replicas.hpp"
#include "memest/units/int128.hpp"
#include "memory/optimizer/parameter_groups.hpp"
#include "memory/quantized/code_placement.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// torch.distributed._DEFAULT_FIRST_BUCKET_BYTES.
constexpr std::int64_t kFirstBucket = kMiB;

std::vector<std::int64_t> sizes_of(const std::vector<TensorBucket>& buckets) {
  std::vector<std::int64_t> sizes;
  for (const TensorBucket& bucket : buckets) sizes.push_back(bucket.bytes);
  return sizes;
}

}  // namespace

GradientBuckets::GradientBuckets(const Job& job, const Inventory& inventory,
                                 const ForwardOrder& order, Recorder& recorder)
    : parallelism_(job.parallelism),
      inventory_(inventory),
      order_(order),
      timeline_(recorder.timeline()),
      recorder_(recorder),
      options_{.gradients = job.training->recipe.gradients,
               .gives_cap = job.parallelism.ddp.bucket_cap != DataParallelBuckets().bucket_cap,
               .finds_unused = finds_unused_parameters(job)},
      recipe_(job.training->recipe),
      quantized_(job.model.quantized ? &*job.model.quantized : nullptr),
      adapted_(job.model.adapter.has_value()) {}

HeldStorage GradientBuckets::make(LoopTensor tensor, Holding holding, std::int64_t bytes) {
  return recorder_.make(bytes, loop_label(holding, tensor));
}

void GradientBuckets::construct() {
  constructed_ = true;
  compare_shapes();
  broadcast();
  if (options_.finds_unused) {
    make_buckets(sizes_by_definition(limits()));
    const auto trained = std::ranges::count_if(timeline_.parameters, [&](const TensorPlace& place) {
      return inventory_.parameters[place.row].wants_gradient();
    });
    used_ = make(LoopTensor::shapes, Holding::collective_buffers,
                 checked_multiply(std::int64_t{trained}, size_of(DType::int32)));
    return;
  }
  // One for all gradients of a type: sys.maxsize.
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  make_buckets(sizes_by_definition({kNoLimit, kNoLimit}));
}

/// DistributedDataParallel.__init__: _DEFAULT_FIRST_BUCKET_BYTES if bucket_bytes_cap_default.
BucketLimits GradientBuckets::limits() const {
  const std::int64_t cap = parallelism_.ddp.bucket_cap.value();
  return {options_.gives_cap ? cap : kFirstBucket, cap};
}

/// _ddp_init_helper: buckets of the parameters as they are defined, the last one first.
std::vector<std::int64_t> GradientBuckets::sizes_by_definition(const BucketLimits& limits) const {
  std::vector<BucketTensor> gradients;
  for (const auto& one : parameters_in_order(inventory_, timeline_)) {
    const DType type = one.row->whole_module ? recipe_.weights : options_.gradients;
    gradients.push_back({type, checked_multiply(one.elements, size_of(type))});
  }
  std::vector<std::int64_t> sizes = sizes_of(buckets_by_definition(gradients, limits));
  std::ranges::reverse(sizes);
  return sizes;
}

/// Every rank's number of parameters, then the sizes and strides of all of them.
void GradientBuckets::compare_shapes() {
  HeldVector counts;
  // verify_params_across_processes: the rank's own number and one to gather each rank's in.
  for (std::int64_t i = 0; i <= parallelism_.data; ++i) {
    counts.push_back(make(LoopTensor::shapes, Holding::temporaries, size_of(DType::int64)));
  }
  std::int64_t entries = 0;
  for (const TensorPlace& place : timeline_.parameters) {
    const ParameterTensor& row = inventory_.parameters[place.row];
    if (row.wants_gradient()) entries += 2 * static_cast<std::int64_t>(row.shape.size());
  }
  make(LoopTensor::shapes, Holding::temporaries, entries * size_of(DType::int64)).drop();
}

void GradientBuckets::broadcast() {
  // _sync_module_states: parameters, then buffers.
  CoalescedBroadcast sent;
  for (const TensorPlace& place : timeline_.parameters) {
    const ParameterTensor& row = inventory_.parameters[place.row];
    if (row.quantized) {
      // The codes alone are a parameter of the module, their scales are in its state.
      sent.add(DType::uint8, bytes_of_codes(*quantized_, {place.elements, row.shape.front()}));
      continue;
    }
    const DType type = placed_type(row, recipe_);
    sent.add(type, checked_multiply(place.elements, size_of(type)));
  }
  add_buffers(sent);
  sent.write(recorder_);
}

/// An adapter's layers share theirs, found in the first of them: before the model's own tables.
void GradientBuckets::add_buffers(CoalescedBroadcast& sent) const {
  if (!options_.sends_buffers) return;
  for (const bool of_adapter : {true, false}) {
    for (const TensorPlace& place : timeline_.buffers) {
      const BufferTensor& row = inventory_.buffers[place.row];
      if (row.of_adapter != of_adapter) continue;
      sent.add(row.dtype, checked_multiply(place.elements, size_of(row.dtype)));
    }
  }
}

BucketTensor GradientBuckets::gradient_of(std::uint32_t use) const {
  const ParameterUse& parameter = order_.parameters()[use];
  const DType type = adapted_ ? parameter.dtype : options_.gradients;
  return {type, checked_multiply(parameter.elements, size_of(type))};
}

/// Reducer::initialize_buckets lets the old buckets go first. Gradients that are views of them hold
/// them until initialize_bucket_views has copied each into its new bucket: those of a micro-step
/// that another follows, and those that zero_grad(set_to_none=False) leaves.
void GradientBuckets::make_buckets(const std::vector<std::int64_t>& sizes) {
  HeldVector old = std::exchange(buckets_, {});
  if (!has_views_) old.drop();
  sizes_ = sizes;
  for (const std::int64_t size : sizes) {
    buckets_.push_back(make(LoopTensor::gradient_bucket, Holding::gradients, size));
  }
}

/// The new order is agreed on by all ranks: an index for each gradient, and the buckets' lengths.
void GradientBuckets::rebuild() {
  const std::vector<std::int64_t> sizes = sizes_of(buckets_of(arrived_, limits()));
  // Reducer::sync_bucket_indices: the indices and how many buckets there are; then their lengths.
  const std::int64_t index = size_of(DType::int32);
  HeldStorage order = make(LoopTensor::shapes, Holding::temporaries,
                           index * (static_cast<std::int64_t>(arrived_.size()) + 1));
  make(LoopTensor::shapes, Holding::temporaries, index * static_cast<std::int64_t>(sizes.size()))
      .drop();
  order.drop();
  make_buckets(sizes);
}

/// The first rank's buffers are sent before every forward but those behind one under no_sync().
void GradientBuckets::before_forward(std::uint32_t instance) {
  if (instance != 0) return;
  if (!constructed_) construct();
  if (has_run_ && !rebuilt_ && !options_.finds_unused) {
    rebuild();
    rebuilt_ = true;
  }
  // DistributedDataParallel._pre_forward: Reducer::rebuild_buckets, then _sync_buffers.
  if (reduced_last_) {
    CoalescedBroadcast buffers;
    add_buffers(buffers);
    buffers.write(recorder_);
  }
  reduced_last_ = !held_;
}

/// Copied into its bucket; with views, the bucket is the gradient from then on.
bool GradientBuckets::take_gradient(std::uint32_t use, StorageId gradient) {
  if (held_) return false;
  if (!has_run_) {
    arrived_.push_back(gradient_of(use));
  }
  has_views_ = parallelism_.ddp.gradient_as_bucket_view;
  if (has_views_) recorder_.release(gradient);
  return has_views_;
}

void GradientBuckets::end_backward() { has_run_ = has_run_ || !held_; }

}  // namespace memest
