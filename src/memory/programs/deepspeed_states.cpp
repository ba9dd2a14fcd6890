#include "memory/programs/deepspeed_states.hpp"

#include <algorithm>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/megatron/megatron_loop.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/sharding/parameter_places.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
Bf16Gradients::Bf16Gradients(const ZeroBuckets::Model& model, std::vector<std::uint32_t> places,
                             Recorder& recorder)
    : recorder_(recorder),
      weights_(model.job.training->recipe.weights),
      sums_(model.job.training->recipe.gradients),
      places_(std::move(places)),
      elements_(elements_of_parameters(recorder.timeline())),
      partitions_(elements_, model.job.parallelism.data),
      gradients_(elements_.size()) {}

HeldStorage Bf16Gradients::make(LoopTensor tensor, Holding holding, std::int64_t elements,
                                DType type) {
  return recorder_.make(checked_multiply(elements, size_of(type)), loop_label(holding, tensor));
}

void Bf16Gradients::flatten(const std::vector<StorageId>& weights) {
  make(LoopTensor::parameter_buffer, Holding::weights, partitions_.elements(), weights_).give_up();
  for (const StorageId weight : weights) recorder_.release(weight);
  make(LoopTensor::gradient_buffer, Holding::gradients, partitions_.elements(), sums_).give_up();
}

void Bf16Gradients::reduce() {
  // allreduce_bucket: communication_data_type is bf16, so tensor.to(bf16).
  make(LoopTensor::gradient_bucket, Holding::temporaries, partitions_.elements(), weights_).drop();
}

/// pipe/engine.py, _exec_backward_pass: clear_lp_grads() stands before the backward.
void Bf16Gradients::before_backward(std::uint32_t) {
  if (!std::exchange(ended_, false)) return;
  for (HeldStorage& gradient : gradients_) gradient.drop();
}

bool Bf16Gradients::take_gradient(std::uint32_t use, StorageId gradient) {
  add_to_sum(gradients_[places_[use]], recorder_.adopt(gradient));
  return true;
}

void Bf16Gradients::end_backward() {
  // update_hp_grads: hp_grad.data.add_(lp.grad.data.to(hp_grad.dtype)).
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_[i].is_of_storage()) continue;
    make(LoopTensor::gradient_in_master_type, Holding::temporaries, elements_[i], sums_).drop();
  }
  ended_ = true;
}

DeepSpeedStates::DeepSpeedStates(const Parts& parts)
    : recorder_(parts.recorder),
      weights_(parts.model.job.training->recipe.weights),
      ranks_(parts.model.job.parallelism.data) {
  if (sums_whole_gradients(parts.model.job)) {
    sums_ = std::make_unique<Bf16Gradients>(parts.model, parts.places, recorder_);
  } else {
    buckets_ = std::make_unique<ZeroBuckets>(parts.model, parts.places, recorder_);
  }
  if (buckets_) return;
  flat_.name = "the flat parameters";
  flat_.shape = {sums_->partitions().partition()};
  const ParameterGroup partition{{0, flat_.shape.front(), &flat_}};
  optimizer_.emplace(parts.model.job, std::vector<ParameterGroup>{partition}, parts.device,
                     recorder_);
}

BlockHooks& DeepSpeedStates::hooks() {
  if (sums_) return *sums_;
  return *buckets_;
}

OptimizerRun& DeepSpeedStates::optimizer() {
  return buckets_ ? buckets_->optimizer() : *optimizer_;
}

HeldStorage DeepSpeedStates::flat_weights(std::int64_t elements) {
  return recorder_.make(checked_multiply(elements, size_of(weights_)),
                        loop_label(Holding::temporaries, LoopTensor::parameter_shard));
}

/// all_gather_dp_groups: shards of about allgather_bucket_size elements of all ranks, each by way
/// of a flat tensor (ProcessGroupNCCL::allgather into a list, flatten_for_scatter_gather).
void DeepSpeedStates::gather_weights() {
  const std::int64_t bucket = sums_ ? 5'000'000'000 : 500'000'000;
  const std::int64_t elements = sums_ ? sums_->partitions().elements() : buckets_->elements();
  const std::int64_t partition = elements / ranks_;
  const std::int64_t shards = std::max<std::int64_t>(1, elements / bucket);
  const std::int64_t shard = partition / shards / 2 * 2;
  for (std::int64_t left = shards; left > 0; --left) {
    const bool last = left == 1;
    const std::int64_t own = last ? partition - (shards - 1) * shard : shard;
    flat_weights(checked_multiply(own, ranks_)).drop();
  }
}

void DeepSpeedStates::construct(const Timeline& timeline) {
  const std::vector<StorageId> weights = placed_weights(timeline);
  if (sums_) {
    sums_->flatten(weights);
    // bf16_dp_partitions[partition_id].clone().float().
    HeldStorage clone = flat_weights(sums_->partitions().partition());
    optimizer_->construct();
    clone.drop();
  } else {
    // move_to_cpu(bit16_groups) and empty_cache(), then the flat tensor comes back.
    const std::vector<StorageId> empty = buckets_->send_weights(weights);
    recorder_.empty_cache();
    buckets_->construct(empty);
  }
  // initialize_optimizer_states().
  optimizer().step();
  optimizer().zero_grad();
}

void DeepSpeedStates::step(Recorder& /*recorder*/) {
  if (sums_) sums_->reduce();
  hooks().hand_over(optimizer());
  optimizer().step();
  optimizer().zero_grad();
  gather_weights();
}

Timeline write_megatron_deepspeed(const MegatronRank& of) {
  Timeline timeline;
  const Inventory& inventory = of.graph.parameters;
  const ForwardOrder order(of.graph, of.device);
  const ModelTensors tensors = name_model(of.graph, order, inventory, timeline);
  Recorder recorder(timeline, EqualMicroSteps::followed);
  recorder.begin(Phase::model);
  ModelPlacement(inventory, of.job.training->recipe, tensors, recorder)
      .write(false, BufferOrder::as_registered);
  recorder.end();
  const ZeroBuckets::Model model{of.job, inventory, of.rank.data,
                                 MegatronLoop::followed_micro_steps(of.job)};
  DeepSpeedStates states({model, parameter_places(of.graph, order, timeline), recorder, of.device});
  recorder.begin(Phase::main_params);
  states.construct(timeline);
  recorder.end();
  EngineSettings settings = of.settings;
  settings.hooks = &states.hooks();
  settings.gradient_bytes = 0;  // as they come
  settings.loss_with_backward = false;
  settings.loss_outside = false;
  settings.tensor_ranks = of.job.parallelism.tensor;
  Engine engine(of.graph, order, settings, recorder);
  MegatronLoop loop({of.job, of.rank.pipeline, order, engine, states, recorder, of.device});
  for (std::int64_t i = 1; i <= of.job.training->steps; ++i) {
    loop.step(static_cast<std::uint16_t>(i));
  }
  recorder.finish();
  return timeline;
}

}  // namespace memest
