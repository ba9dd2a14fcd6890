#include "memory/megatron/megatron_units.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/sharding/parameter_places.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLeastQueued = 1'000'000'000;

/// Weight decay is for matrices (_get_param_groups).
bool has_rows(const ParameterTensor& row) { return row.shape.size() > 1; }

}  // namespace

MegatronUnits::MegatronUnits(const MegatronModel& model, Recorder& recorder)
    : job_(model.job),
      recipe_(model.job.training->recipe),
      order_(model.order),
      recorder_(recorder),
      rank_(model.rank),
      weights_(model, recorder.timeline()) {
  find_buckets(model);
}

void MegatronUnits::find_buckets(const MegatronModel& model) {
  const ForwardOrder& order = model.order;
  const auto& instances = order.instances();
  const std::vector<std::uint32_t> places =
      parameter_places(model.graph, order, recorder_.timeline());
  for (const BlockInstance& instance : instances) {
    is_layer_.push_back(model.graph.blocks[instance.block].checkpointable);
  }
  std::vector<BucketedParameter> parameters(weights_.count());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& shape = weights_.row(i).shape;
    const std::int64_t rows = shape.size() > 1 ? shape.front() : weights_.elements(i);
    parameters[i] = {.elements = weights_.elements(i),
                     .row_elements = weights_.elements(i) / rows,
                     .in_eight_bits = weights_.in_eight_bits(i)};
  }
  const auto& uses = order.parameters();
  for (std::size_t use = 0; use < uses.size(); ++use) {
    if (is_layer_[uses[use].instance]) parameters[places[use]].unit = uses[use].instance;
  }
  const std::int64_t ranks = job_.parallelism.shard_ranks();
  buckets_ = unit_buckets(parameters, {ranks, overlapped_bucket_elements(ranks)});
  states_.resize(buckets_.size());
  if (units_of(sharding_of(job_))->init == ShardInit::meta) leave_on_meta();
  std::vector<std::size_t> bucket_of(parameters.size());
  std::int64_t in_layers = 0;
  const std::int64_t layers = std::ranges::count(is_layer_, true);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (const auto& placed : buckets_[bucket].placed) {
      bucket_of[placed.parameter] = bucket;
      if (buckets_[bucket].unit) in_layers += placed.elements;
    }
  }
  // The suggested_communication_unit_size: two layers, a billion elements at least.
  queue_capacity_ = std::max(kLeastQueued, layers > 0 ? in_layers / layers * 2 : 0);
  of_blocks_.resize(instances.size());
  first_instance_.assign(buckets_.size(), static_cast<std::uint32_t>(instances.size() - 1));
  for (std::size_t use = 0; use < uses.size(); ++use) {
    const std::size_t bucket = bucket_of[places[use]];
    of_uses_.push_back(bucket);
    first_instance_[bucket] = std::min(first_instance_[bucket], uses[use].instance);
    auto& read = of_blocks_[uses[use].instance];
    if (std::find(read.begin(), read.end(), bucket) == read.end()) read.push_back(bucket);
  }
}

/// VocabParallelEmbedding and the output layer name the GPU (tensor_parallel/layers.py); all else
/// is of Transformer Engine, the last norm too, or torch's.
void MegatronUnits::leave_on_meta() {
  for (const UnitBucket& bucket : buckets_) {
    for (const auto& placed : bucket.placed) {
      const bool of_layer = bucket.unit.has_value();
      if (of_layer || !has_rows(weights_.row(placed.parameter))) {
        weights_.leave_on_meta(placed.parameter);
      }
    }
  }
}

Label MegatronUnits::label_of(std::size_t bucket, UnitTensor tensor) const {
  Label label;
  label.holding = holding_of(tensor);
  label.origin = Origin::unit;
  label.place = first_instance_[bucket];
  label.tensor = static_cast<std::uint16_t>(tensor);
  return label;
}

/// A Float8Tensor is stored as torch.uint8 (fp8_get_raw_data).
std::int64_t MegatronUnits::weight_bytes(std::size_t bucket, std::int64_t elements) const {
  const DType type = buckets_[bucket].in_eight_bits ? DType::fp8 : recipe_.weights;
  return checked_multiply(elements, size_of(type));
}

/// _init_each_parameter_group_buffers: the share, the whole bucket that the weights move into, and
/// the main weights' share; then the bucket goes.
void MegatronUnits::make_shares() {
  weights_.cast(recorder_);
  std::int64_t shares = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const UnitBucket& bucket = buckets_[i];
    recorder_.allocate(weight_bytes(i, bucket.share),
                       loop_label(Holding::weights, LoopTensor::parameter_buffer));
    const HeldStorage whole =
        recorder_.make(weight_bytes(i, bucket.elements), label_of(i, UnitTensor::flat_weights));
    // preserve_fp32_weights, whatever the model's own type is.
    recorder_.allocate(
        checked_multiply(bucket.share, size_of(DType::fp32)),
        parameter_label(Holding::optimizer_states, bucket.placed.front().parameter, kMasterCopy));
    // to_empty() and reset_parameters() make a weight that was left on the meta device here; it
    // goes as soon as the bucket has it.
    for (const auto& placed : bucket.placed) {
      weights_.materialize(placed.parameter, recorder_);
      weights_.drop(placed.parameter);
    }
    shares = checked_add(shares, bucket.share);
  }
  recorder_.allocate(checked_multiply(shares, size_of(recipe_.gradients)),
                     loop_label(Holding::gradients, LoopTensor::gradient_buffer));
}

std::vector<std::pair<std::size_t, std::int64_t>> MegatronUnits::stepped(
    std::int64_t data_rank) const {
  std::vector<std::pair<std::size_t, std::int64_t>> list;
  for (const UnitBucket& bucket : buckets_) {
    for (const auto& placed : bucket.placed) {
      const std::int64_t elements = bucket.in_share(placed, data_rank);
      // update_main_grads: what has no elements has no gradient, and is not stepped.
      if (elements > 0) list.emplace_back(placed.parameter, elements);
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<std::int64_t> MegatronUnits::stepped_elements(std::int64_t data_rank) const {
  std::vector<std::int64_t> elements;
  for (const auto& [parameter, count] : stepped(data_rank)) elements.push_back(count);
  return elements;
}

void MegatronUnits::make_optimizer(const std::optional<LaunchDevice>& device) {
  device_ = device;
  recorder_.allocate(size_of(DType::fp32),
                     loop_label(Holding::optimizer_states, LoopTensor::loss_scale));
  std::vector<ParameterGroup> groups(2);
  for (const auto& [parameter, elements] : stepped(rank_.data)) {
    ParameterTensor tensor = weights_.row(parameter);
    const bool decays = has_rows(tensor);
    tensor.shape = {elements};
    shares_.push_back(std::move(tensor));
    groups[decays ? 0 : 1].push_back(
        {static_cast<std::uint32_t>(parameter), elements, &shares_.back()});
  }
  for (const ParameterGroup& group : groups) {
    for (const SteppedTensor& tensor : group) normed_.push_back(tensor.elements);
  }
  optimizer_.emplace(job_, std::move(groups), device, recorder_);
}

/// The buckets that a gather of `bucket` asks for: all_gather_params takes the next ones until
/// these are suggested_AG_prefetch_size elements.
std::vector<bool> MegatronUnits::with_ahead(std::size_t bucket, Order order) const {
  std::vector<bool> asked(buckets_.size());
  asked[bucket] = true;
  std::int64_t ahead = 0;
  const auto last = static_cast<std::int64_t>(buckets_.size()) - 1;
  for (auto next = static_cast<std::int64_t>(bucket); ahead < queue_capacity_ / 2;) {
    next += order == Order::forward ? 1 : -1;
    if (next < 0 || next > last) break;
    asked[static_cast<std::size_t>(next)] = true;
    ahead += buckets_[static_cast<std::size_t>(next)].elements;
  }
  return asked;
}

void MegatronUnits::gather(std::size_t bucket, Order order) {
  states_[bucket].releasable = false;
  const std::vector<bool> asked = with_ahead(bucket, order);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!asked[i] || states_[i].gathered.is_of_storage()) continue;
    states_[i].releasable = false;
    recycle();
    states_[i].gathered = recorder_.make(weight_bytes(i, buckets_[i].elements),
                                         label_of(i, UnitTensor::flat_weights), Stream::all_gather);
  }
}

/// recycle_unused_buckets.
void MegatronUnits::recycle() {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (std::exchange(states_[i].releasable, false)) release(i);
  }
}

void MegatronUnits::before_forward(std::uint32_t instance) {
  for (const std::size_t bucket : of_blocks_[instance]) gather(bucket, Order::forward);
}

void MegatronUnits::after_forward(std::uint32_t instance) {
  if (!is_layer_[instance]) return;
  for (const std::size_t bucket : of_blocks_[instance]) release(bucket);
}

/// _root_pre_backward: what the forward gathered ahead behind its last layer may go when the
/// backward gathers. Modules outside of layers gather for the forward alone.
void MegatronUnits::before_backward(std::uint32_t instance) {
  if (!std::exchange(in_backward_, true)) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (buckets_[i].unit) states_[i].releasable = true;
    }
  }
  if (!is_layer_[instance]) return;
  for (const std::size_t bucket : of_blocks_[instance]) gather(bucket, Order::backward);
}

void MegatronUnits::after_backward(std::uint32_t instance) {
  if (!is_layer_[instance]) return;
  for (const std::size_t bucket : of_blocks_[instance]) release(bucket);
}

/// get_main_grad: the first gradient of a bucket makes it.
void MegatronUnits::fill(std::size_t bucket) {
  State& state = states_[bucket];
  if (state.gradients.is_of_storage()) return;
  state.gradients =
      recorder_.make(checked_multiply(buckets_[bucket].elements, size_of(recipe_.gradients)),
                     label_of(bucket, UnitTensor::flat_gradient));
}

void MegatronUnits::arrive(std::size_t bucket) {
  if (++states_[bucket].arrived == buckets_[bucket].placed.size()) reduce(bucket);
}

/// Transformer Engine's products ask for ctx.main_grad_func(). A tied table's gradient, which also
/// arrives as a tensor, is complete then.
void MegatronUnits::write_gradient(std::uint32_t use) {
  fill(of_uses_[use]);
  if (order_.parameters()[use].contributions == 0) arrive(of_uses_[use]);
}

/// _grad_acc copies the gradient into its bucket.
bool MegatronUnits::take_gradient(std::uint32_t use, StorageId gradient) {
  fill(of_uses_[use]);
  recorder_.release(gradient);
  arrive(of_uses_[use]);
  return true;
}

void MegatronUnits::reduce(std::size_t bucket) {
  states_[bucket].arrived = 0;
  free_reduced(queue_capacity_);
  recorder_.make_and_free(checked_multiply(buckets_[bucket].share, size_of(recipe_.gradients)),
                          label_of(bucket, UnitTensor::gradients), Stream::reduce_scatter);
  reducing_.push_back(bucket);
}

/// wait_for_previous_grad_reduce: buckets of at most so many elements are left waiting.
void MegatronUnits::free_reduced(std::int64_t most) {
  std::int64_t waiting = 0;
  for (const std::size_t bucket : reducing_) waiting += buckets_[bucket].elements;
  while (waiting > most) {
    waiting -= buckets_[reducing_.front()].elements;
    states_[reducing_.front()].gradients.drop();
    reducing_.pop_front();
  }
}

void MegatronUnits::end_backward() {
  free_reduced(0);
  in_backward_ = false;
}

/// finish_grad_sync: gradients of the main weights' type, then no weight is gathered any more.
void MegatronUnits::finish_gradients() {
  optimizer_->widen_gradients();
  for (State& state : states_) state.releasable = true;
  recycle();
}

void MegatronUnits::zero_grad() { optimizer_->zero_grad(); }

void MegatronUnits::step(Recorder& recorder) {
  if (job_.training->clip_gradients) take_gradient_norm(normed_, device_, recorder);
  optimizer_->step();
  // start_param_sync: the bucket of the model's first parameter.
  gather(of_uses_.front(), Order::forward);
}

std::int64_t MegatronUnits::tensor_summed_elements() const {
  if (job_.parallelism.tensor == 1) return 0;
  std::int64_t total = 0;
  for (const auto& [parameter, elements] : stepped(rank_.data)) {
    if (summed_over_tensor_ranks(weights_.row(parameter), job_.parallelism)) total += elements;
  }
  return total;
}

}  // namespace memest
