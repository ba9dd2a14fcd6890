#include "memory/sharding/zero_buckets.hpp"

#include <algorithm>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

std::vector<std::int64_t> trained_elements(const Inventory& inventory, const Timeline& timeline) {
  std::vector<std::int64_t> elements;
  for (const TensorPlace& place : timeline.parameters) {
    if (inventory.parameters[place.row].trainable) elements.push_back(place.elements);
  }
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
      places_(std::move(places)),
      partitions_(trained_elements(model.inventory, recorder.timeline()),
                  model.job.parallelism.data) {
  std::size_t trained = 0;
  for (const TensorPlace& place : recorder.timeline().parameters) {
    trained_index_.push_back(trained);
    if (model.inventory.parameters[place.row].trainable) ++trained;
  }
  whole_.resize(trained);
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

HeldVector ZeroBuckets::send_weights(const std::vector<StorageId>& weights) {
  HeldVector empty;
  for (const StorageId weight : weights) {
    // param.data = torch.empty(1).to(param.device)
    empty.push_back(make(LoopTensor::parameter_shard, Holding::temporaries, {1, DType::fp32}));
    recorder_.release(weight);
  }
  return empty;
}

void ZeroBuckets::flatten(const std::vector<StorageId>& weights) {
  make(LoopTensor::parameter_buffer, Holding::weights, {partitions_.elements(), weights_})
      .give_up();
  for (const StorageId weight : weights) recorder_.release(weight);
}

void ZeroBuckets::give_partition(OptimizerRun& optimizer) {
  // The optimizer's own copy is made from a clone, and a first gradient of zeros comes and goes.
  HeldStorage clone =
      make(LoopTensor::parameter_shard, Holding::temporaries, {partitions_.partition(), weights_});
  optimizer.construct();
  clone.drop();
  if (offloads_) {
    // temp_grad_buffer_for_gpu_offload: as large as the largest parameter.
    make(LoopTensor::transfer_buffer, Holding::collective_buffers,
         {partitions_.largest(), weights_})
        .give_up();
    return;
  }
  make(LoopTensor::gradient_in_master_type, Holding::temporaries,
       {partitions_.partition(), DType::fp32})
      .drop();
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
  HeldStorage given = recorder_.adopt(gradient);
  if (!shards_gradients()) {
    HeldStorage& sum = whole_[parameter];
    if (!sum.is_of_storage()) sum = std::move(given);
    given.drop();  // added to the sum
  }
  if (!reduces_now()) return true;
  add(parameter, shards_gradients() ? std::move(given) : std::move(whole_[parameter]));
  return true;
}

void ZeroBuckets::add(std::size_t parameter, HeldStorage gradient) {
  const std::int64_t elements = partitions_.elements_of(parameter);
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
  const std::int64_t rank = partitions_.first_rank(filled_.front().parameter);
  return std::any_of(filled_.begin(), filled_.end(), [&](const Filled& one) {
    return partitions_.first_rank(one.parameter) != rank ||
           partitions_.last_rank(one.parameter) != rank;
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
    const std::int64_t elements = partitions_.piece(filled.parameter, rank_);
    make(LoopTensor::norm_of_a_tensor, Holding::temporaries, {elements, kDeepSpeedNormType}).drop();
    make(LoopTensor::gradient_in_master_type, Holding::temporaries, {elements, DType::fp32}).drop();
  }
  filled.gradient.drop();
}

/// Stage 1 leaves what is not its own where it is until the backward has ended.
void ZeroBuckets::keep_own(Filled& filled) {
  const bool own = partitions_.reaches(filled.parameter, rank_);
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
    const std::int64_t kept =
        widens_partition() ? partitions_.partition() : partitions_.reaching(rank_);
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
void ZeroBuckets::hand_over(OptimizerRun& optimizer) {
  if (offloads_) return;
  const std::vector<std::int64_t> pieces = partitions_.pieces(rank_);
  for (const std::int64_t elements : pieces) {
    make(LoopTensor::norm_of_a_tensor, Holding::temporaries, {elements, kDeepSpeedNormType}).drop();
  }
  if (widens_partition()) return;
  const std::int64_t copied = pieces.size() > 1 ? partitions_.partition() : 0;
  HeldStorage flat = make(LoopTensor::gradient_buffer, Holding::temporaries, {copied, weights_});
  optimizer.widen_gradients();
  flat.drop();
  collected_.drop();
}

}  // namespace memest
