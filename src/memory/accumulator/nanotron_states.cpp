#include "memory/accumulator/nanotron_states.hpp"

#include <utility>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

NanotronStates::NanotronStates(const Model& model, Recorder& recorder)
    : job_(model.job),
      recipe_(job_.training->recipe),
      graph_(model.graph),
      recorder_(recorder),
      device_(model.device) {
  const auto accumulator = std::get<GradientAccumulator>(sharding_of(job_));
  if (accumulator.divides_optimizer) parts_ = job_.parallelism.data;
  for (const TensorPlace& place : recorder.timeline().parameters) {
    elements_ = checked_add(elements_, place.elements);
    of_rank_ = checked_add(of_rank_, share(place.elements));
  }
  if (!accumulator.buckets) return;
  // trainer.py: DistributedDataParallel(model, broadcast_buffers=False, bucket_cap_mb=...).
  buckets_.emplace(job_, graph_.parameters, model.order, recorder);
  buckets_->set_options({.gradients = recipe_.weights, .sends_buffers = false, .gives_cap = true});
}

/// _partition_parameters: the first ranks have one element more where they do not divide.
std::int64_t NanotronStates::share(std::int64_t elements) const {
  return (elements + parts_ - 1) / parts_;
}

HeldStorage NanotronStates::make(std::int64_t elements, DType type, LoopTensor tensor) {
  return recorder_.make(checked_multiply(elements, size_of(type)),
                        loop_label(Holding::temporaries, tensor));
}

void NanotronStates::wrap() {
  if (buckets_) buckets_->construct();
}

void NanotronStates::make_optimizer() {
  const auto keep = [&](std::int64_t elements, Holding holding, LoopTensor tensor) {
    recorder_.allocate(checked_multiply(elements, size_of(DType::fp32)),
                       loop_label(holding, tensor));
  };
  // build_grad_buffers: all parameters', whoever steps them; then the fp32 weights of those that
  // the rank steps.
  keep(elements_, Holding::gradients, LoopTensor::gradient_buffer);
  keep(of_rank_, Holding::optimizer_states, LoopTensor::parameter_buffer);
  ParameterGroup group;
  const std::vector<TensorPlace>& places = recorder_.timeline().parameters;
  for (std::size_t i = 0; i < places.size(); ++i) {
    ParameterTensor tensor = graph_.parameters.parameters[places[i].row];
    const std::int64_t elements = share(places[i].elements);
    if (parts_ > 1) tensor.shape = {elements};
    shares_.push_back(std::move(tensor));
    group.push_back({static_cast<std::uint32_t>(i), elements, &shares_.back()});
  }
  optimizer_.emplace(job_, std::vector<ParameterGroup>{std::move(group)}, device_, recorder_);
}

void NanotronStates::before_forward(std::uint32_t instance) {
  if (buckets_) buckets_->before_forward(instance);
}

void NanotronStates::hold_gradients(bool held) {
  held_ = held;
  if (!buckets_) return;
  buckets_->hold_gradients(held);
  if (held || parts_ == 1) return;
  waiting_ = 0;
  coming_ = buckets_->sizes();
}

/// A gradient that fills a bucket has it reduced.
bool NanotronStates::take_gradient(std::uint32_t use, StorageId gradient) {
  if (!buckets_) return false;
  const bool taken = buckets_->take_gradient(use, gradient);
  if (held_ || parts_ == 1) return taken;
  waiting_ = checked_add(waiting_, recorder_.timeline().storages[gradient].bytes);
  if (coming_.empty() || waiting_ < coming_.front()) return taken;
  reduce(std::exchange(waiting_, 0));
  coming_.erase(coming_.begin());
  return taken;
}

void NanotronStates::end_backward() {
  if (!buckets_) return;
  reduced_.drop();
  buckets_->end_backward();
}

/// distributed.py, reduce_scatter_coalesced: the rank's own part and every rank's in flat copies,
/// and in torch.distributed.reduce_scatter all of those in one. They last until the next bucket's.
void NanotronStates::reduce(std::int64_t bytes) {
  reduced_.drop();
  const std::int64_t elements = bytes / size_of(recipe_.weights);
  for (std::int64_t i = 0; i <= parts_; ++i) {
    reduced_.push_back(make(share(elements), DType::fp32, LoopTensor::gradient_bucket));
  }
  reduced_.push_back(make(share(elements) * parts_, DType::fp32, LoopTensor::gradient_bucket));
}

/// clip_grads.py, clip_grad_norm: gradient by gradient, then of the norms.
void NanotronStates::clip() {
  HeldVector norms;
  const std::vector<TensorPlace>& places = recorder_.timeline().parameters;
  for (const TensorPlace& place : places) {
    norms.push_back(make(1, DType::fp32, LoopTensor::norm_of_a_tensor));
    if (!device_) continue;
    recorder_.launch(reduction_scratch(sum_of_all(place.elements, size_of(DType::fp32)), *device_),
                     loop_label(Holding::temporaries, LoopTensor::partial_norms));
  }
  const HeldStorage stack =
      make(static_cast<std::int64_t>(places.size()), DType::fp32, LoopTensor::stacked_norms);
  norms.drop();
  norm_ = make(1, DType::fp32, LoopTensor::norm);
  const HeldStorage coefficient = make(1, DType::fp32, LoopTensor::clip_coefficient);
}

void NanotronStates::step() {
  if (job_.training->clip_gradients) clip();
  optimizer_->step();
  if (parts_ > 1) gather_weights();
}

/// distributed.py, all_gather_coalesced: the rank's own part of all weights and every rank's in
/// flat copies, and in torch.distributed.all_gather all of those in one.
void NanotronStates::gather_weights() {
  const HeldStorage own = make(of_rank_, recipe_.weights, LoopTensor::parameter_shard);
  HeldVector parts;
  for (std::int64_t i = 0; i < parts_; ++i) {
    parts.push_back(make(of_rank_, recipe_.weights, LoopTensor::parameter_shard));
  }
  make(of_rank_ * parts_, recipe_.weights, LoopTensor::parameter_buffer).drop();
}

}  // namespace memest
