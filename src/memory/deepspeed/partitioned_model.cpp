#include "memory/deepspeed/partitioned_model.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
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

/// The modules that all blocks run: the outermost, and the one in it.
constexpr std::array<WeightCoordinator::Module, 2> kAround = {0, 1};

BlockPosition position_of(const PartitionedModel::Parts& parts, std::size_t instance) {
  const auto& instances = parts.order.instances();
  const bool is_layer = parts.graph.blocks[instances[instance].block].checkpointable;
  const bool reads = row_of(parts.job.training->implementation.loop).takes_tiles;
  return {.first = instance == 0,
          .behind = instance > 0 && !is_layer,
          .reads_weights = reads && instance + 1 == instances.size()};
}

}  // namespace

PartitionedModel::PartitionedModel(const Parts& parts, Recorder& recorder)
    : job_(parts.job),
      recorder_(recorder),
      device_(parts.device),
      graph_(parts.graph),
      order_(parts.order),
      weights_(parts.job.training->recipe.weights),
      gradients_(parts.job.training->recipe.gradients),
      sharding_(std::get<DeepSpeedZero>(sharding_of(parts.job))),
      places_(parameter_places(parts.graph, parts.order, recorder.timeline())) {
  std::vector<WeightCoordinator::Weight> weights;
  for (const TensorPlace& place : recorder.timeline().parameters) {
    weights.push_back({place.elements, 0});
  }
  for (std::size_t use = 0; use < places_.size(); ++use) {
    weights[places_[use]].instance = order_.parameters()[use].instance;
  }
  std::vector<std::vector<std::uint32_t>> modules;
  for (std::uint32_t i = 0; i < order_.instances().size(); ++i) {
    const Block& block = parts.graph.blocks[order_.instances()[i].block];
    first_module_.push_back(static_cast<WeightCoordinator::Module>(modules.size()));
    calls_.push_back(module_calls(block, position_of(parts, i)));
    for (const ModuleCall& call : calls_.back()) {
      std::vector<std::uint32_t>& own = call.begins ? modules.emplace_back() : read_;
      if (!call.begins) modules.emplace_back();
      for (const TensorId tensor : call.parameters) {
        own.push_back(places_[order_.cell(i, tensor)]);
      }
      std::sort(own.begin(), own.end());
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
          .element_bytes = size_of(weights_),
          .pieces_on_host = job_.parallelism.offload.parameters,
          .stream = sharding_.overlaps() ? Stream::all_gather : Stream::compute},
      std::move(weights), std::move(modules), recorder_);
  arrived_.emplace(
      PartitionedGradients::Settings{
          .rules = sharding_,
          .ranks = ranks,
          .rank = parts.data_rank,
          .arriving = weights_,
          .summed = gradients_,
          .to_host = offloads(),
          .micro_steps = std::min(job_.training->gradient_accumulation, kMostMicroSteps)},
      elements_of_parameters(recorder_.timeline()), recorder_);
  find_sub_groups(parts.graph.parameters);
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
  for (std::uint32_t i = 0; i < timeline.parameters.size(); ++i) coordinator_->gather_once(i);
}

/// _convert_to_zero_parameters, then defragment(): the pieces go to the host, the cache is emptied.
/// Pieces that stay on the host never come to the device.
void PartitionedModel::cut_weights(ModelPlacement& placement, Timeline& timeline) {
  const bool on_host = job_.parallelism.offload.parameters;
  const std::vector<StorageId> placed = placed_weights(timeline);
  HeldVector pieces;
  std::int64_t all = 0;
  for (std::uint32_t i = 0; i < timeline.parameters.size(); ++i) {
    const HeldStorage weight =
        recorder_.adopt(sharding_.settings.zero_init ? placement.place(i) : placed[i]);
    const std::int64_t piece = coordinator_->piece(i);
    all = checked_add(all, piece);
    if (on_host) continue;
    pieces.push_back(make(LoopTensor::parameter_shard, Holding::weights, piece, weights_));
  }
  if (on_host) return;
  pieces.drop();
  timeline.emptied_before = static_cast<std::uint32_t>(timeline.events.size());
  make(LoopTensor::parameter_buffer, Holding::weights, all, weights_).give_up();
}

/// _create_fp32_partitions and initialize_optimizer_states.
void PartitionedModel::make_copies() {
  if (offloads()) return;
  std::int64_t largest = 0;
  for (SubGroup& group : groups_) {
    largest = std::max(largest, group.elements);
    const HeldStorage converted =
        make(LoopTensor::parameter_shard, Holding::temporaries, group.elements, DType::fp32);
    group.optimizer->construct();
  }
  make(LoopTensor::gradient_in_master_type, Holding::temporaries, largest, DType::fp32).drop();
}

const std::vector<ModuleCall>& PartitionedModel::calls(const OpSite& site) const {
  return calls_[site.instance];
}

WeightCoordinator::Module PartitionedModel::module(const OpSite& site, std::size_t call) const {
  const ModuleCall& called = calls(site)[call];
  if (!called.begins) return kAround[called.outermost ? 0 : 1];
  return first_module_[site.instance] + static_cast<WeightCoordinator::Module>(call);
}

void PartitionedModel::before_forward(std::uint32_t instance) {
  if (instance == 0) coordinator_->begin_run();
}

void PartitionedModel::before_op(const OpSite& site) {
  if (site.op == 0 && site.instance + 1 == order_.instances().size()) {
    coordinator_->read(kAround[0], read_);
  }
  const std::vector<ModuleCall>& modules = calls(site);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (modules[i].begins && modules[i].begin == site.op)
      coordinator_->before_forward(module(site, i));
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
    if (modules[i].ends && modules[i].end == site.op + 1)
      coordinator_->before_backward(module(site, i));
  }
}

/// A module whose input wants no gradient has no end of its backward: the one that looks up tokens.
void PartitionedModel::after_node(const OpSite& site) {
  const std::vector<ModuleCall>& modules = calls(site);
  for (std::size_t i = modules.size(); i > 0; --i) {
    const ModuleCall& call = modules[i - 1];
    if (call.begins && call.ends && call.begin == site.op && site.instance > 0)
      coordinator_->after_backward(module(site, i - 1));
  }
}

void PartitionedModel::save_again(const OpSite& site) {
  const Block& block = graph_.blocks[order_.instances()[site.instance].block];
  for (const TensorId saved : block.ops[site.op].saved) {
    const TensorId storage = block.tensors[saved].storage;
    if (block.tensors[storage].role != Role::parameter) continue;
    const std::uint32_t weight = places_[order_.cell(site.instance, storage)];
    saved_again_.emplace_back(site, coordinator_->share(weight));
  }
}

void PartitionedModel::drop_saved_again(const OpSite& site) {
  std::erase_if(saved_again_, [&](const auto& saved) { return saved.first == site; });
}

bool PartitionedModel::take_gradient(std::uint32_t use, StorageId gradient) {
  arrived_->take(places_[use], recorder_.adopt(gradient));
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
  for (std::uint32_t i = 0; i < recorder_.timeline().parameters.size(); ++i) {
    make(LoopTensor::norm_of_a_tensor, Holding::temporaries, coordinator_->piece(i),
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

std::optional<Unavailable> partitioned_model_refusal(const Job& job) {
  const HostOffload& offload = job.parallelism.offload;
  if (offload.optimizer_on_nvme || offload.parameters_on_nvme) {
    return Unavailable{
        "the timeline of DeepSpeed's ZeRO 3 with a part on NVMe is not available yet"};
  }
  return std::nullopt;
}

namespace {

std::optional<Unavailable> adapted_refusal(const Job& job) {
  if (!job.model.adapter) return std::nullopt;
  if (std::get<DeepSpeedZero>(sharding_of(job)).shards_weights()) {
    return Unavailable{"adapters in DeepSpeed's ZeRO 3 are not available yet"};
  }
  if (job.parallelism.offload.any()) {
    return Unavailable{"adapters in DeepSpeed with a part on the host are not available yet"};
  }
  if (size_of(job.training->recipe.gradients) > size_of(job.training->recipe.weights)) {
    return Unavailable{
        "adapters in DeepSpeed with gradients summed in a wider type are not available yet"};
  }
  if (!job.model.adapter->whole_modules.empty()) {
    return Unavailable{
        "modules trained in full beside adapters in DeepSpeed are not available yet"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> deepspeed_refusal(const Job& job) {
  if (is_megatron_deepspeed(job)) return std::nullopt;
  if (std::get<DeepSpeedZero>(sharding_of(job)).shards_weights()) {
    if (auto refused = partitioned_model_refusal(job)) return refused;
  }
  if (!job.training->recipe.master || job.training->recipe.autocast) {
    return Unavailable{
        "the timeline of DeepSpeed over other weights than 16-bit ones is not available yet"};
  }
  if (auto refused = adapted_refusal(job)) return refused;
  if (sums_whole_gradients(job)) {
    return Unavailable{
        "the timeline of DeepSpeed's ZeRO 1 with gradients summed in fp32, which is an optimizer "
        "of its own, is not available yet"};
  }
  const LoopRow& loop = row_of(job.training->implementation.loop);
  if (loop.trains && !loop.accelerate) {
    return Unavailable{
        "the timeline of DeepSpeed in another loop than a plain one or the Trainer's is not "
        "available yet"};
  }
  const Recipe& recipe = job.training->recipe;
  const bool wider = size_of(recipe.gradients) > size_of(recipe.weights);
  if (loop.accelerate && (wider || job.parallelism.offload.any())) {
    return Unavailable{
        "the timeline of DeepSpeed in the Trainer with a part on the host or gradients summed in "
        "a wider type is not available yet"};
  }
  return std::nullopt;
}

}  // namespace memest
