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
#include "memory/quantized/code_placement.hpp"
#include "memory/quantized/coded_shares.hpp"
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

/// The instance of the block with which the model answers: the last, or one before a loss that the
/// program takes of its answers.
std::size_t last_of_model(const PartitionedModel::Parts& parts) {
  const auto& instances = parts.order.instances();
  const auto answers = std::ranges::find_if(instances, [&](const BlockInstance& instance) {
    return std::ranges::any_of(parts.graph.blocks[instance.block].ops, &Op::ends_autocast);
  });
  return answers == instances.end() ? instances.size() - 1
                                    : static_cast<std::size_t>(answers - instances.begin());
}

BlockPosition position_of(const PartitionedModel::Parts& parts, std::size_t instance) {
  const auto& instances = parts.order.instances();
  const auto block_of = [&](std::size_t i) -> const Block& {
    return parts.graph.blocks[instances[i].block];
  };
  const bool is_layer = block_of(instance).checkpointable;
  const bool reads = row_of(parts.job.training->implementation.loop).takes_tiles;
  const std::size_t last = last_of_model(parts);
  const bool is_last = instance + 1 == instances.size();
  return {.first = instance == 0,
          .behind = instance > 0 && !is_layer && instance <= last,
          .reads_weights = reads && instance == last,
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
  std::vector<std::vector<CalledModule>> called;
  for (std::uint32_t i = 0; i < order_.instances().size(); ++i) {
    const Block& block = parts.graph.blocks[order_.instances()[i].block];
    called.emplace_back();
    for (const ModuleCall& call : module_calls(block, position_of(parts, i))) {
      const auto own = static_cast<WeightCoordinator::Module>(modules_.size());
      called.back().push_back({call, call.begins ? own : call.around, weights_of(i, call.reads)});
      modules_.push_back(weights_of(i, call.parameters));
    }
  }
  forwards_.emplace(std::move(called), false);
  coordinator_.emplace(settings_of(sharding_.settings), weights(), modules_, recorder_);
  const std::int64_t ranks = job_.parallelism.data;
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

bool PartitionedModel::is_trained(std::uint32_t parameter) const {
  return std::ranges::binary_search(trained_, parameter);
}

const ParameterTensor& PartitionedModel::row(std::uint32_t parameter) const {
  return graph_.parameters.parameters[recorder_.timeline().parameters[parameter].row];
}

DType PartitionedModel::type_of(std::uint32_t parameter) const {
  if (row(parameter).quantized) return job_.model.quantized->storage;
  return is_trained(parameter) ? trained_type_ : weights_;
}

/// Params4bit's are as many as its storage type holds of the codes.
std::int64_t PartitionedModel::elements_of(std::uint32_t parameter) const {
  const std::int64_t elements = recorder_.timeline().parameters[parameter].elements;
  if (!row(parameter).quantized) return elements;
  const CodedMatrix matrix{elements, row(parameter).shape.front()};
  return bytes_of_codes(*job_.model.quantized, matrix) / size_of(type_of(parameter));
}

std::vector<WeightCoordinator::Weight> PartitionedModel::weights() const {
  std::vector<WeightCoordinator::Weight> weights;
  for (std::uint32_t i = 0; i < recorder_.timeline().parameters.size(); ++i) {
    weights.push_back({.elements = elements_of(i),
                       .trained = is_trained(i),
                       .element_bytes = size_of(type_of(i))});
  }
  std::uint32_t number = 0;
  for (const std::uint32_t cut : in_order_of_cutting()) weights[cut].number = number++;
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
  std::ranges::stable_partition(order, [&](std::uint32_t i) { return !is_trained(i); });
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

WeightCoordinator::Settings PartitionedModel::settings_of(const DeepSpeed& written) const {
  return {.prefetch_bucket = written.prefetch_bucket_size,
          .max_live = written.max_live_parameters,
          .max_reuse_distance = written.max_reuse_distance,
          .persistence_threshold = written.persistence_threshold,
          .ranks = job_.parallelism.data,
          .pieces_on_host = job_.parallelism.offload.parameters,
          .stream = sharding_.overlaps() ? Stream::all_gather : Stream::compute};
}

std::unique_ptr<PartitionedReference> PartitionedModel::reference() {
  const Teacher* const teacher = job_.training->teacher.get();
  if (teacher == nullptr) return nullptr;
  if (teacher->use == TeacherUse::own_reference) {
    return std::make_unique<PartitionedReference>(calls_of_reference(), *coordinator_);
  }
  WeightCoordinator::Settings settings = settings_of(sharding_.settings.without_auto());
  settings.stream = {sharding_.overlaps() ? Stream::all_gather : Stream::compute, 1};
  return std::make_unique<PartitionedReference>(
      calls_of_reference(), WeightCoordinator(settings, weights(), modules_, recorder_),
      PartitionedReference::Model{graph_.teacher_parameters, teacher->weights, recorder_,
                                  sharding_.settings.zero_init});
}

std::vector<std::vector<CalledModule>> PartitionedModel::calls_of_reference() const {
  std::vector<std::vector<CalledModule>> calls;
  for (const BlockRun& run : graph_.teacher) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      const auto instance = static_cast<std::uint32_t>(calls.size());
      const std::vector<CalledModule>& trained = forwards_->of({instance, 0});
      std::vector<ModuleCall> own;
      for (const CalledModule& called : trained) own.push_back(called.call);
      const Block& block = graph_.blocks[order_.instances()[instance].block];
      calls.emplace_back();
      for (PlainCall& kept : calls_without_adapters(block, own, graph_.blocks[run.block])) {
        const CalledModule& called = trained[kept.place];
        const bool reads = !kept.call.reads.empty();
        calls.back().push_back({std::move(kept.call), called.module,
                                reads ? called.reads : std::vector<std::uint32_t>{}});
      }
    }
  }
  return calls;
}

HeldStorage PartitionedModel::make(LoopTensor tensor, Holding holding, std::int64_t elements,
                                   DType type) {
  return recorder_.make(checked_multiply(elements, size_of(type)), loop_label(holding, tensor));
}

bool PartitionedModel::offloads() const { return job_.parallelism.offload.optimizer; }

void PartitionedModel::construct(HeldVector pieces) {
  if (!job_.parallelism.offload.parameters) join(std::move(pieces));
  make_copies();
  arrived_->construct();
  // create_reduce_and_remove_grad_hooks.
  for (const std::uint32_t trained : trained_) coordinator_->gather_once(trained);
}

/// _convert_to_zero_parameters. Pieces that stay on the host never come to the device.
HeldVector PartitionedModel::cut(ModelPlacement& placement) {
  const bool made_cut = sharding_.settings.zero_init;
  const bool adapted = job_.model.adapter && made_cut;
  const auto& quantized = job_.model.quantized;
  const Timeline& timeline = recorder_.timeline();
  std::vector<StorageId> placed =
      quantized ? placed_codes(timeline, graph_.parameters, *quantized) : placed_weights(timeline);
  HeldVector pieces;
  for (const std::uint32_t i : in_order_of_cutting()) {
    if (adapted && i == trained_.front()) {
      placement.place_adapters(*job_.model.adapter);
      placed = placed_weights(timeline);
    }
    const bool now = made_cut && !(adapted && is_trained(i));
    const HeldStorage weight = recorder_.adopt(now ? placement.place(i) : placed[i]);
    if (job_.parallelism.offload.parameters) continue;
    HeldStorage piece =
        make(LoopTensor::parameter_shard, Holding::weights, coordinator_->piece(i), type_of(i));
    if (is_trained(i)) {
      pieces.push_back(std::move(piece));
    } else {
      piece.give_up();
    }
  }
  return pieces;
}

/// defragment(): the pieces of what is trained go to the host, the cache is emptied.
void PartitionedModel::join(HeldVector pieces) {
  pieces.drop();
  recorder_.empty_cache();
  std::int64_t all = 0;
  for (const std::uint32_t i : trained_) all = checked_add(all, coordinator_->piece(i));
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

void PartitionedModel::before_forward(std::uint32_t instance) {
  if (instance == 0) coordinator_->begin_run();
}

void PartitionedModel::before_op(const OpSite& site) { forwards_->before_op(site, *coordinator_); }

void PartitionedModel::after_op(const OpSite& site) { forwards_->after_op(site, *coordinator_); }

void PartitionedModel::before_node(const OpSite& site) {
  for (const auto& [call, module, reads] : forwards_->of(site)) {
    if (call.ends && call.has_backward && call.answers == site.op) {
      coordinator_->before_backward(module);
    }
  }
}

void PartitionedModel::after_node(const OpSite& site) {
  const std::vector<CalledModule>& modules = forwards_->of(site);
  for (std::size_t i = modules.size(); i > 0; --i) {
    const auto& [call, module, reads] = modules[i - 1];
    if (call.ends_backward && call.begin == site.op) coordinator_->after_backward(module);
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
