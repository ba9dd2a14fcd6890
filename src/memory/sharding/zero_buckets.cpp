#include "memory/sharding/zero_buckets.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/optimizer/parameter_groups.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

std::vector<std::int64_t> sizes_of(const ParameterGroup& group) {
  std::vector<std::int64_t> elements;
  for (const SteppedTensor& tensor : group) elements.push_back(tensor.elements);
  return elements;
}

}  // namespace

ZeroBuckets::ZeroBuckets(const Model& model, std::vector<std::uint32_t> places, Recorder& recorder)
    : recorder_(recorder),
      zero_(std::get<DeepSpeedZero>(sharding_of(model.job))),
      offloads_(model.job.parallelism.offload.optimizer),
      rank_(model.data_rank),
      micro_steps_(model.micro_steps.value_or(
          std::min(model.job.training->gradient_accumulation, kMostMicroSteps))),
      weights_(model.job.training->recipe.weights),
      gradients_(model.job.training->recipe.gradients),
      places_(std::move(places)) {
  std::size_t trained = 0;
  for (const TensorPlace& place : recorder.timeline().parameters) {
    trained_index_.push_back(trained);
    if (model.inventory.parameters[place.row].trainable) ++trained;
  }
  whole_.resize(trained);
  group_of_.resize(trained);
  make_groups(model);
}

void ZeroBuckets::make_groups(const Model& model) {
  const LoopHabits& habits = loop_habits_of(model.job.training->implementation);
  for (const ParameterGroup& all : trained_groups(model.inventory, recorder_.timeline(), habits)) {
    if (all.empty()) continue;
    Group& group = groups_.emplace_back(
        Group{FlatPartitions(sizes_of(all), model.job.parallelism.data), {}, {}, {}});
    for (const SteppedTensor& tensor : all) {
      group_of_[trained_index_[tensor.parameter]] = {groups_.size() - 1, group.parameters.size()};
      group.parameters.push_back(tensor.parameter);
    }
  }
  for (Group& group : groups_) {
    group.row.name = "the flat parameters";
    group.row.shape = {group.partitions.partition()};
    std::vector<ParameterGroup> stepped;
    const std::uint32_t first = group.parameters.front();
    if (!offloads_) stepped.push_back({{first, group.row.shape.front(), &group.row}});
    group.optimizer =
        std::make_unique<OptimizerRun>(model.job, std::move(stepped), model.device, recorder_);
  }
}

template <class Count>
std::int64_t ZeroBuckets::of_all_groups(Count count) const {
  std::int64_t all = 0;
  for (const Group& group : groups_) all = checked_add(all, count(group.partitions));
  return all;
}

std::int64_t ZeroBuckets::elements() const {
  return of_all_groups(std::mem_fn(&FlatPartitions::elements));
}

std::int64_t ZeroBuckets::partition() const {
  return of_all_groups(std::mem_fn(&FlatPartitions::partition));
}

std::int64_t ZeroBuckets::reaching() const {
  return of_all_groups([this](const FlatPartitions& one) { return one.reaching(rank_); });
}

HeldStorage ZeroBuckets::make(LoopTensor tensor, Holding holding, Elements elements,
                              Stream stream) {
  return recorder_.make(checked_multiply(elements.count, size_of(elements.type)),
                        loop_label(holding, tensor), stream);
}

/// The stream in whose pool a reduction allocates: its own where it overlaps the backward.
Stream ZeroBuckets::reduction_stream() const {
  return zero_.overlaps() ? Stream::reduce_scatter : Stream::compute;
}

std::vector<StorageId> ZeroBuckets::send_weights(const std::vector<StorageId>& weights) {
  std::vector<StorageId> empty = weights;
  for (const Group& group : groups_) {
    for (const std::uint32_t parameter : group.parameters) {
      // param.data = torch.empty(1).to(param.device)
      empty[parameter] =
          make(LoopTensor::parameter_shard, Holding::temporaries, {1, DType::fp32}).give_up();
      recorder_.release(weights[parameter]);
    }
  }
  return empty;
}

void ZeroBuckets::construct(const std::vector<StorageId>& weights) {
  for (Group& group : groups_) {
    // Every group begins with empty_cache(): before the first one of a model that has just come
    // nothing is cached.
    const bool cached = &group != &groups_.front() && !recorder_.timeline().emptied_before;
    if (cached) recorder_.empty_cache();
    make(LoopTensor::parameter_buffer, Holding::weights, {group.partitions.elements(), weights_})
        .give_up();
    for (const std::uint32_t parameter : group.parameters) {
      recorder_.release(weights[parameter]);  // _update_model_bit16_weights
    }
    // The optimizer's own copy is made from a clone.
    const HeldStorage clone = make(LoopTensor::parameter_shard, Holding::temporaries,
                                   {group.partitions.partition(), weights_});
    group.optimizer->construct();
  }
  if (offloads_) {
    // temp_grad_buffer_for_gpu_offload: as large as the largest parameter.
    std::int64_t largest = 0;
    for (const Group& group : groups_) largest = std::max(largest, group.partitions.largest());
    make(LoopTensor::transfer_buffer, Holding::collective_buffers, {largest, weights_}).give_up();
    return;
  }
  // initialize_optimizer_states: first gradients of zeros come and go.
  HeldVector zeros;
  for (const Group& group : groups_) {
    zeros.push_back(make(LoopTensor::gradient_in_master_type, Holding::temporaries,
                         {group.partitions.partition(), DType::fp32}));
  }
}

bool ZeroBuckets::reduces_now() const {
  return shards_gradients() || (zero_.overlaps() && micro_step_ == micro_steps_);
}

/// Gradients that are summed in a wider type than they come in have a tensor for the partition.
bool ZeroBuckets::widens_partition() const { return size_of(gradients_) > size_of(weights_); }

void ZeroBuckets::open_buckets() {
  if (!buckets_.empty() || !zero_.settings.contiguous_gradients) return;
  // setup_buckets: with overlap_comm one is filled while the other is reduced.
  for (int i = 0; i < (zero_.overlaps() ? 2 : 1); ++i) {
    buckets_.push_back(make(LoopTensor::gradient_bucket, Holding::collective_buffers,
                            {zero_.settings.reduce_bucket_size, weights_}));
  }
}

bool ZeroBuckets::take_gradient(std::uint32_t use, StorageId gradient) {
  const std::size_t parameter = trained_index_[places_[use]];
  open_buckets();
  if (shards_gradients()) {
    add(parameter, recorder_.adopt(gradient));
    return true;
  }
  add_to_sum(whole_[parameter], recorder_.adopt(gradient));
  if (reduces_now()) add(parameter, std::move(whole_[parameter]));
  return true;
}

void ZeroBuckets::add(std::size_t parameter, HeldStorage gradient) {
  const std::int64_t elements = partitions_of(parameter).elements_of(place_of(parameter));
  // reduce_independent_p_g_buckets_and_remove_grads: a bucket is reduced before the gradient that
  // it has no room for; one that is larger than a bucket is no part of it
  // (extra_large_param_to_reduce).
  if (filled_elements_ + elements > zero_.settings.reduce_bucket_size) reduce();
  const bool copied =
      zero_.settings.contiguous_gradients && elements <= zero_.settings.reduce_bucket_size;
  if (copied) gradient.drop();
  if (!copied && offloads_) {
    gradient = make(LoopTensor::gradient_bucket, Holding::gradients, {elements, weights_});
  }
  filled_.push_back({parameter, std::move(gradient)});
  filled_elements_ = checked_add(filled_elements_, elements);
}

/// A bucket whose contiguous gradients are all one rank's is reduced as it lies.
bool ZeroBuckets::is_of_several_ranks() const {
  // average_tensor joins slices of one rank, and allreduce_bucket makes a flat tensor of several
  // alone.
  const auto first = [this](std::size_t parameter) {
    return partitions_of(parameter).first_rank(place_of(parameter));
  };
  const std::int64_t rank = first(filled_.front().parameter);
  return std::any_of(filled_.begin(), filled_.end(), [&](const Filled& one) {
    const std::int64_t last = partitions_of(one.parameter).last_rank(place_of(one.parameter));
    return first(one.parameter) != rank || last != rank;
  });
}

void ZeroBuckets::reduce() {
  if (filled_.empty()) return;
  const bool listed = !zero_.settings.contiguous_gradients && filled_.size() > 1;
  if (listed || is_of_several_ranks()) {
    make(LoopTensor::gradient_bucket, Holding::temporaries, {filled_elements_, weights_},
         reduction_stream())
        .drop();
  }
  for (Filled& one : filled_) keep_own(one);
  filled_.clear();
  filled_elements_ = 0;
}

/// To the host; earlier micro-steps' are summed there, in the buffer for transfers.
void ZeroBuckets::send_own(Filled& filled) {
  if (micro_step_ == micro_steps_) {
    const FlatPartitions& partitions = partitions_of(filled.parameter);
    const std::int64_t elements = partitions.piece(place_of(filled.parameter), rank_);
    make(LoopTensor::norm_of_a_tensor, Holding::temporaries, {elements, kDeepSpeedNormType}).drop();
    make(LoopTensor::gradient_in_master_type, Holding::temporaries, {elements, DType::fp32}).drop();
  }
  filled.gradient.drop();
}

/// Stage 1 leaves what is not its own where it is until the backward has ended.
void ZeroBuckets::keep_own(Filled& filled) {
  const bool own = partitions_of(filled.parameter).reaches(place_of(filled.parameter), rank_);
  if (!own) {
    if (shards_gradients()) return filled.gradient.drop();
    waiting_.push_back(std::move(filled.gradient));
    return;
  }
  if (offloads_) return send_own(filled);
  if (!zero_.settings.contiguous_gradients && !widens_partition()) {
    arrived_.push_back(std::move(filled.gradient));
    return;
  }
  HeldVector& partition = widens_partition() ? collected_ : arrived_;
  if (partition.empty()) {
    const std::int64_t kept = widens_partition() ? this->partition() : reaching();
    partition.push_back(make(LoopTensor::gradient_buffer, Holding::gradients, {kept, gradients_},
                             reduction_stream()));
  }
  filled.gradient.drop();
}

void ZeroBuckets::end_backward() {
  const bool last = micro_step_ == micro_steps_;
  micro_step_ = last ? 1 : micro_step_ + 1;
  if (!shards_gradients() && !last) return;
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    if (whole_[i].is_of_storage()) add(i, std::move(whole_[i]));
  }
  reduce();
  if (collected_.empty()) std::swap(collected_, arrived_);
  arrived_.drop();
  buckets_.drop();
  waiting_.drop();
}

void ZeroBuckets::drop_gradients() { collected_.drop(); }

/// Gradients in the optimizer's type stay until it has stepped.
void ZeroBuckets::hand_over(OptimizerRun& last) {
  if (offloads_) return;
  for (const Group& group : groups_) {
    for (const std::int64_t elements : group.partitions.pieces(rank_)) {
      make(LoopTensor::norm_of_a_tensor, Holding::temporaries, {elements, kDeepSpeedNormType})
          .drop();
    }
  }
  for (Group& group : groups_) {
    if (!widens_partition()) widen(group);
    if (group.optimizer.get() == &last) break;
    group.optimizer->step();
    group.optimizer->zero_grad();
  }
  if (!widens_partition()) collected_.drop();
}

/// One gradient is widened as it lies.
void ZeroBuckets::widen(Group& group) {
  const bool several = group.partitions.pieces(rank_).size() > 1;
  const std::int64_t copied = several ? group.partitions.partition() : 0;
  const HeldStorage flat =
      make(LoopTensor::gradient_buffer, Holding::temporaries, {copied, weights_});
  group.optimizer->widen_gradients();
}

}  // namespace memest
