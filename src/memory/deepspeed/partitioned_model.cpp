#include "memory/deepspeed/partitioned_model.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/optimizer/parameter_groups.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/sharding/parameter_places.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Whether the block gives a gradient to its input.
bool wants_gradient(const Block& block) {
  return std::ranges::any_of(block.ops, [&](const Op& op) {
    return std::ranges::any_of(op.gradients, [&](const InputGradient& gradient) {
      return block.tensors[gradient.input].storage == block.input;
    });
  });
}

BlockPosition position_of(const PartitionedModel::Parts& parts, std::size_t instance) {
  const auto& instances = parts.order.instances();
  const auto block_of = [&](std::size_t i) -> const Block& {
    return parts.graph.blocks[instances[i].block];
  };
  const bool is_layer = block_of(instance).checkpointable;
  const bool reads = row_of(parts.job.training->implementation.loop).takes_tiles;
  const bool is_last = instance + 1 == instances.size();
  return {.first = instance == 0,
          .behind = instance > 0 && !is_layer,
          .reads_weights = reads && is_last,
          .with_head = parts.job.model.adapter ? 2U : 0U,
          .answer_wants_gradient = is_last || wants_gradient(block_of(instance + 1))};
}

/// Lists those of Timeline::parameters that want a gradient.
std::vector<std::uint32_t> trained_of(const Graph& graph, const Timeline& timeline) {
  std::vector<std::uint32_t> trained;
  for (std::uint32_t i = 0; i < timeline.parameters.size(); ++i) {
    const ParameterTensor& row = graph.parameters.parameters[timeline.parameters[i].row];
    if (row.trainable) trained.push_back(i);
  }
  return trained;
}

}  // namespace

PartitionedModel::PartitionedModel(const Parts& parts, Recorder& recorder)
    : job_(parts.job),
      recorder_(recorder),
      device_(parts.device),
      graph_(parts.graph),
      order_(parts.order),
      weights_(parts.job.training->recipe.weights),
      trained_type_(parts.job.training->recipe.trained.value_or(weights_)),
      gradients_(parts.job.training->recipe.gradients),
      sharding_(std::get<DeepSpeedZero>(sharding_of(parts.job))),
      places_(parameter_places(parts.graph, parts.order, recorder.timeline())),
      trained_(trained_of(parts.graph, recorder.timeline())) {
  std::vector<std::vector<std::uint32_t>> modules;
  for (std::uint32_t i = 0; i < order_.instances().size(); ++i) {
    const Block& block = parts.graph.blocks[order_.instances()[i].block];
    first_module_.push_back(static_cast<WeightCoordinator::Module>(modules.size()));
    calls_.push_back(module_calls(block, position_of(parts, i)));
    for (const ModuleCall& call : calls_.back()) {
      modules.push_back(weights_of(i, call.parameters));
    }
  }
  const std::int64_t ranks = job_.parallelism.data;
  coordinator_.emplace(
      WeightCoordinator::Settings{
          .prefetch_bucket = sharding_.settings.prefetch_bucket_size,
          .max_live = sharding_.settings.max_live_parameters,
          .max_reuse_distance = sharding_.settings.max_reuse_distance,
          .persistence_threshold = sharding_.settings.persistence_threshold,
          .ranks = ranks,
          .pieces_on_host = job_.parallelism.offload.parameters,
          .stream = sharding_.overlaps() ? Stream::all_gather : Stream::compute},
      weights(), std::move(modules), recorder_);
  arrived_.emplace(
      PartitionedGradients::Settings{
          .rules = sharding_,
          .ranks = ranks,
          .rank = parts.data_rank,
          .given = trained_type_,
          .arriving = weights_,
          .summed = gradients_,
          .to_host = offloads(),
          .micro_steps = std::min(job_.training->gradient_accumulation, kMostMicroSteps)},
      elements_of_trained(), recorder_);
  find_sub_groups(parts.graph.parameters);
}

std::vector<WeightCoordinator::Weight> PartitionedModel::weights() const {
  std::vector<WeightCoordinator::Weight> weights;
  for (const TensorPlace& place : recorder_.timeline().parameters) {
    weights.push_back(
        {.elements = place.elements, .trained = false, .element_bytes = size_of(weights_)});
  }
  std::uint32_t number = 0;
  for (const std::uint32_t cut : in_order_of_cutting()) weights[cut].number = number++;
  for (const std::uint32_t trained : trained_) {
    weights[trained].trained = true;
    weights[trained].element_bytes = size_of(trained_type_);
  }
  for (std::size_t use = 0; use < places_.size(); ++use) {
    weights[places_[use]].instance = order_.parameters()[use].instance;
  }
  return weights;
}

std::vector<std::uint32_t> PartitionedModel::weights_of(
    std::uint32_t instance, const std::vector<TensorId>& parameters) const {
  std::vector<std::uint32_t> weights;
  for (const TensorId tensor : parameters) {
    weights.push_back(places_[order_.cell(instance, tensor)]);
  }
  std::sort(weights.begin(), weights.end());
  return weights;
}

/// deepspeed.zero.Init cuts each weight as it is made; what it has not made, as adapters, the
/// engine cuts behind all others.
std::vector<std::uint32_t> PartitionedModel::in_order_of_cutting() const {
  std::vector<std::uint32_t> order(recorder_.timeline().parameters.size());
  std::iota(order.begin(), order.end(), 0U);
  if (!job_.model.adapter || !sharding_.settings.zero_init) return order;
  std::ranges::stable_partition(
      order, [&](std::uint32_t i) { return !std::ranges::binary_search(trained_, i); });
  return order;
}

std::vector<std::int64_t> PartitionedModel::elements_of_trained() const {
  std::vector<std::int64_t> elements;
  for (const std::uint32_t trained : trained_) {
    elements.push_back(recorder_.timeline().parameters[trained].elements);
  }
  return elements;
}

/// _create_fp16_sub_groups, of each of the optimizer's parameter groups.
void PartitionedModel::find_sub_groups(const Inventory& inventory) {
  const LoopHabits& habits = loop_habits_of(job_.training->implementation);
  for (const ParameterGroup& all : trained_groups(inventory, recorder_.timeline(), habits)) {
    SubGroup group;
    for (const SteppedTensor& tensor : all) {
      group.elements = checked_add(group.elements, coordinator_->piece(tensor.parameter));
      ++group.parameters;
      const bool last = &tensor == &all.back();
      if (group.elements < sharding_.settings.sub_group_size && !last) continue;
      groups_.push_back(std::exchange(group, {}));
    }
  }
  for (SubGroup& one : groups_) {
    one.row.name = "the flat parameters";
    one.row.shape = {one.elements};
    std::vector<ParameterGroup> stepped;
    if (!offloads()) stepped.push_back({{0, one.elements, &one.row}});
    one.optimizer = std::make_unique<OptimizerRun>(job_, std::move(stepped), device_, recorder_);
  }
}

HeldStorage PartitionedModel::make(LoopTensor tensor, Holding holding, std::int64_t elements,
                                   DType type) {
  return recorder_.make(checked_multiply(elements, size_of(type)), loop_label(holding, tensor));
}

bool PartitionedModel::offloads() const { return job_.parallelism.offload.optimizer; }

void PartitionedModel::construct(ModelPlacement& placement, Timeline& timeline) {
  cut_weights(placement, timeline);
  make_copies();
  arrived_->construct();
  // create_reduce_and_remove_grad_hooks.
  for (const std::uint32_t trained : trained_) coordinator_->gather_once(trained);
}

/// _convert_to_zero_parameters, then defragment(): the pieces of what is trained go to the host,
/// the cache is emptied. Pieces that stay on the host never come to the device.
void PartitionedModel::cut_weights(ModelPlacement& placement, const Timeline& timeline) {
  const bool on_host = job_.parallelism.offload.parameters;
  const bool made_cut = sharding_.settings.zero_init;
  const bool adapted = job_.model.adapter && made_cut;
  std::vector<StorageId> placed = placed_weights(timeline);
  HeldVector pieces;
  std::int64_t all = 0;
  for (const std::uint32_t i : in_order_of_cutting()) {
    const bool is_trained = std::ranges::binary_search(trained_, i);
    if (adapted && i == trained_.front()) {
      placement.place_adapters(*job_.model.adapter);
      placed = placed_weights(timeline);
    }
    const bool now = made_cut && !(adapted && is_trained);
    const HeldStorage weight = recorder_.adopt(now ? placement.place(i) : placed[i]);
    if (on_host) continue;
    const std::int64_t elements = coordinator_->piece(i);
    HeldStorage piece = make(LoopTensor::parameter_shard, Holding::weights, elements,
                             is_trained ? trained_type_ : weights_);
    if (!is_trained) {
      piece.give_up();
      continue;
    }
    all = checked_add(all, elements);
    pieces.push_back(std::move(piece));
  }
  if (on_host) return;
  pieces.drop();
  recorder_.empty_cache();
  make(LoopTensor::parameter_buffer, Holding::weights, all, trained_type_).give_up();
}

/// _create_fp32_partitions, which clones what is as wide as it is, and initialize_optimizer_states.
void PartitionedModel::make_copies() {
  if (offloads()) return;
  std::int64_t largest = 0;
  for (SubGroup& group : groups_) {
    largest = std::max(largest, group.elements);
    const std::int64_t converted = trained_type_ == DType::fp32 ? 0 : group.elements;
    const HeldStorage copy =
        make(LoopTensor::parameter_shard, Holding::temporaries, converted, DType::fp32);
    group.optimizer->construct();
  }
  make(LoopTensor::gradient_in_master_type, Holding::temporaries, largest, DType::fp32).drop();
}

const std::vector<ModuleCall>& PartitionedModel::calls(const OpSite& site) const {
  return calls_[site.instance];
}

WeightCoordinator::Module PartitionedModel::module(const OpSite& site, std::size_t call) const {
  const ModuleCall& called = calls(site)[call];
  if (!called.begins) return called.around;
  return first_module_[site.instance] + static_cast<WeightCoordinator::Module>(call);
}

void PartitionedModel::before_forward(std::uint32_t instance) {
  if (instance == 0) coordinator_->begin_run();
}

void PartitionedModel::before_op(const OpSite& site) {
  const std::vector<ModuleCall>& modules = calls(site);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const ModuleCall& called = modules[i];
    if (called.begins && called.begin == site.op) coordinator_->before_forward(module(site, i));
    if (called.reads.empty() || called.read_before != site.op) continue;
    coordinator_->read(module(site, i), weights_of(site.instance, called.reads));
  }
}

void PartitionedModel::after_op(const OpSite& site) {
  const std::vector<ModuleCall>& modules = calls(site);
  for (std::size_t i = modules.size(); i > 0; --i) {
    if (modules[i - 1].ends && modules[i - 1].end == site.op + 1)
      coordinator_->after_forward(module(site, i - 1));
  }
}

void PartitionedModel::before_node(const OpSite& site) {
  const std::vector<ModuleCall>& modules = calls(site);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const ModuleCall& called = modules[i];
    if (called.ends && called.has_backward && called.end == site.op + 1) {
      coordinator_->before_backward(module(site, i));
    }
  }
}

void PartitionedModel::after_node(const OpSite& site) {
  const std::vector<ModuleCall>& modules = calls(site);
  for (std::size_t i = modules.size(); i > 0; --i) {
    const ModuleCall& called = modules[i - 1];
    if (called.ends_backward && called.begin == site.op) {
      coordinator_->after_backward(module(site, i - 1));
    }
  }
}

/// A weight that wants no gradient is saved as itself (x.detach() if x.requires_grad else x).
void PartitionedModel::save_again(const OpSite& site) {
  const Block& block = graph_.blocks[order_.instances()[site.instance].block];
  for (const TensorId saved : block.ops[site.op].saved) {
    const TensorId storage = block.tensors[saved].storage;
    if (block.tensors[storage].role != Role::parameter || block.tensors[storage].frozen) continue;
    const std::uint32_t weight = places_[order_.cell(site.instance, storage)];
    saved_again_.emplace_back(site, coordinator_->share(weight));
  }
}

void PartitionedModel::drop_saved_again(const OpSite& site) {
  std::erase_if(saved_again_, [&](const auto& saved) { return saved.first == site; });
}

bool PartitionedModel::take_gradient(std::uint32_t use, StorageId gradient) {
  const auto trained = std::ranges::lower_bound(trained_, places_[use]);
  arrived_->take(static_cast<std::size_t>(trained - trained_.begin()), recorder_.adopt(gradient));
  return true;
}

void PartitionedModel::end_backward() {
  arrived_->end_backward();
  coordinator_->end_backward();
}

/// _prepare_fp32_grad_for_sub_group: what the optimizer is given where it is not a type wider.
HeldStorage PartitionedModel::prepare(const SubGroup& group, OptimizerRun& optimizer) {
  const std::int64_t copied = group.parameters > 1 ? group.elements : 0;
  HeldStorage flat = make(LoopTensor::gradient_buffer, Holding::temporaries, copied, gradients_);
  if (gradients_ == DType::fp32) return flat;
  optimizer.widen_gradients();
  return {};
}

void PartitionedModel::hand_over(OptimizerRun& last) {
  coordinator_->release_all();
  if (offloads()) return;
  for (const std::uint32_t trained : trained_) {
    make(LoopTensor::norm_of_a_tensor, Holding::temporaries, coordinator_->piece(trained),
         kDeepSpeedNormType)
        .drop();
  }
  for (SubGroup& group : groups_) {
    if (group.optimizer.get() == &last) break;
    const HeldStorage wide = prepare(group, *group.optimizer);
    group.optimizer->step();
    group.optimizer->zero_grad();
  }
  wide_ = prepare(groups_.back(), last);
}

void PartitionedModel::drop_gradients() {
  wide_.drop();
  coordinator_->gather_persistent();
}

}  // namespace memest
