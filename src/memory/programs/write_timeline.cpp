#include "memory/programs/write_timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/flattening.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/accumulator/nanotron_program.hpp"
#include "memory/deepspeed/partitioned_model.hpp"
#include "memory/engine/engine.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/litgpt/construction.hpp"
#include "memory/loop/loop.hpp"
#include "memory/megatron/megatron_program.hpp"
#include "memory/models/teacher_model.hpp"
#include "memory/models/whole_unit.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/optimizer/parameter_groups.hpp"
#include "memory/programs/barriers.hpp"
#include "memory/programs/deepspeed_states.hpp"
#include "memory/programs/event_bound.hpp"
#include "memory/programs/inference_loop.hpp"
#include "memory/programs/pipeline_stages.hpp"
#include "memory/programs/wrapper.hpp"
#include "memory/quantized/coded_shares.hpp"
#include "memory/sharding/fsdp_habits.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/sharding/parameter_places.hpp"
#include "memory/sharding/sharded_units.hpp"
#include "memory/sharding/share_cutter.hpp"
#include "memory/sharding/zero_buckets.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/states/overheads.hpp"
#include "memory/timeline/recorder.hpp"
#include "memory/torchtune/construction.hpp"
#include "memory/torchtune/sharded_construction.hpp"

namespace memest {
namespace {

/// The parameters that this rank holds of the model.
Inventory own_inventory(const Graph& graph, const Job& job) {
  if (!shards_by<RowShards>(job)) return graph.parameters;
  Inventory shares = sharded_by_rows(graph.parameters, job.parallelism);
  if (job.model.quantized) share_codes(graph.parameters, job, shares);
  return shares;
}

const LoopHabits& habits_of(const Job& job) {
  return loop_habits_of(job.forward()->implementation);
}

/// fully_shard over a model with its place sends the buffers first.
bool places_buffers_first(const Job& job) {
  return shards_by<RowShards>(job) && habits_of(job).wrapping != Wrapping::without_its_place;
}

/// Null where the job has none.
const Teacher* teacher_of(const Job& job) {
  return job.training ? job.training->teacher.get() : nullptr;
}

EngineSettings settings_of(const Graph& graph, const Job& job, BlockHooks* wrapper) {
  const Recipe& recipe = job.forward()->recipe;
  EngineSettings settings;
  if (job.training) {
    settings.checkpoints = checkpoint_plan_of(*job.training, graph.layers());
    settings.save_on_cpu = job.training->offload_activations;
    settings.offloaded_layers = job.training->offloaded_layers;
  }
  // torch.distributed.pipelining takes the loss whatever loop steps its schedule; Megatron's model
  // takes its own.
  const bool staged = job.parallelism.pipeline > 1 && !runs_megatron(job);
  settings.loss_with_backward = habits_of(job).loss_outside || staged;
  settings.loss_outside =
      settings.loss_with_backward || habits_of(job).names_answer || teacher_of(job) != nullptr;
  settings.hooks = wrapper;
  // FSDP1 makes a unit's views in its unshard stream (_unshard), and autograd runs the backward of
  // a node, here of the split, in the stream of its forward.
  if (shards_by<FlatShards>(job)) settings.parameter_sums = Stream::all_gather;
  settings.gradients = job.training.has_value();
  settings.workspaces = workspaces_of(job);
  if (recipe.gradients != recipe.trained.value_or(recipe.weights))
    settings.gradient_bytes = size_of(recipe.gradients);
  return settings;
}

/// The timeline that is written, and what writes it.
struct ModelRecord {
  Timeline& timeline;
  Recorder& recorder;
  WholeUnit* reference = nullptr;  ///< none
};
/// Gives the model its place, or the rank's shares of it.
void place_model(const Wrapped& wrapped, const ModelTensors& tensors, ModelPlacement& placement,
                 const ModelRecord& record) {
  const auto& [timeline, recorder, reference] = record;
  const auto& [job, graph, inventory, order, data_rank] = wrapped;
  if (shards_by<FlatShards>(job) && shard_init(job) != ShardInit::device) return;
  const ShareCutter::Model model{job, graph.parameters, inventory, order, tensors};
  const Construction construction = habits_of(job).construction;
  const TorchtuneParts of_torchtune{job, graph.parameters, inventory, tensors, placement, recorder};
  if (shards_by<RowShards>(job) && job.model.quantized) {
    if (construction == Construction::by_torchtune)
      return TorchtuneShards(of_torchtune, {model, placement, recorder}).write();
    CodedShares coded(model, recorder);
    coded.place();
    pass_barriers(job, ModelPlace::absent, recorder);
    recorder.empty_cache();
    return coded.cut(placement);
  }
  if (shards_by<RowShards>(job)) {
    pass_barriers(job, ModelPlace::absent, recorder);
    if (reference != nullptr) reference->place();
    if (habits_of(job).empties_cache) recorder.empty_cache();  // as the Trainer wraps
    ShareCutter cutter(model, placement, recorder);
    if (shard_init(job) != ShardInit::meta) return cutter.cut();
    if (row_of(job.training->implementation.loop).accelerate) return cutter.load();
  }
  if (construction == Construction::by_litgpt) {
    return LitgptConstruction({job, inventory, tensors, placement, recorder}).write();
  }
  if (construction == Construction::by_torchtune && !shards_by<RowShards>(job)) {
    return TorchtuneConstruction(of_torchtune).write();
  }
  // to_empty() finds the adapters where peft has put them.
  const bool adapted = job.model.adapter.has_value() && !shards_by<RowShards>(job);
  placement.write(adapted,
                  places_buffers_first(job) ? BufferOrder::first : BufferOrder::as_registered);
  if (placement.widens()) {
    placement.widen();
    recorder.empty_cache();
  }
  if (adapted) placement.place_adapters(*job.model.adapter);
  place_second_models(graph, job, recorder);
}

/// The table that two units gather, if there is one.
std::optional<std::size_t> tied_twice(const Job& job, const Inventory& inventory,
                                      const ModelTensors& tensors) {
  if (!shards_by<RowShards>(job) || !job.training) return std::nullopt;
  if (!layout_of(job.training->implementation).gathers_tied_twice) return std::nullopt;
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    const ParameterTensor& row = inventory.parameters[tensors.parameters[i].row];
    if (row.role == ParameterRole::embedding && row.output_head) return i;
  }
  return std::nullopt;
}

/// Tells the placement what the job does with tensors on their way.
void set_up(ModelPlacement& placement, const Job& job, const Inventory& inventory,
            const ModelTensors& tensors) {
  if (job.model.quantized) {
    placement.quantize(*job.model.quantized, launch_device(job.hardware.gpu));
  }
  if (const auto tied = tied_twice(job, inventory, tensors)) placement.give_spare_of(*tied);
  if (job.parallelism.offload.parameters) placement.keep_weights_on_host();
}

/// A reference that is a model of its own, of which FSDP2 makes one unit; null without one.
std::unique_ptr<WholeUnit> sharded_reference(const Graph& graph, const Job& job,
                                             Recorder& recorder) {
  const Teacher* const teacher = teacher_of(job);
  const bool own = teacher != nullptr && teacher->use == TeacherUse::reference;
  if (!own || !shards_by<RowShards>(job)) return nullptr;
  return std::make_unique<WholeUnit>(graph, job, recorder);
}

/// The hooks around a teacher in shards: its own unit, or the trained model's units.
BlockHooks* wrapper_of_teacher(const Wrapped& wrapped, const EngineSettings& settings,
                               const ModelRecord& record) {
  if (record.reference != nullptr || !shards_by<RowShards>(wrapped.job)) return record.reference;
  return settings.hooks;
}

/// The teacher within `wrapper`, which shares the process's buffers with the engine of `settings`;
/// null without one.
std::unique_ptr<TeacherModel> teacher_model(const Wrapped& wrapped, EngineSettings& settings,
                                            BlockHooks* wrapper, const ModelRecord& record) {
  if (teacher_of(wrapped.job) == nullptr) return nullptr;
  return std::make_unique<TeacherModel>(
      TeacherModel::Parts{wrapped.graph, settings, launch_device(wrapped.job.hardware.gpu), wrapper,
                          record.timeline, record.recorder});
}

/// The settings of a job that shards by DeepSpeed's ZeRO.
DeepSpeedZero zero_of(const Job& job) { return std::get<DeepSpeedZero>(sharding_of(job)); }

/// DeepSpeed's engine takes the model from the host. Codes lie on the device before, with what peft
/// has put beside them; what those leave in the cache goes before the engine makes its own.
void place_for_engine(const Graph& graph, const Job& job, ModelPlacement& placement,
                      Recorder& recorder) {
  const bool coded = job.model.quantized.has_value();
  if (coded) {
    placement.quantize(*job.model.quantized, launch_device(job.hardware.gpu));
    placement.write(true, BufferOrder::as_registered);
    placement.place_adapters(*job.model.adapter);
  }
  pass_barriers(job, ModelPlace::absent, recorder);
  // prepare_deepspeed() has an engine for a reference, before the Trainer's own: of stage 0, or 3.
  if (!zero_of(job).shards_weights()) place_second_models(graph, job, recorder);
  if (coded) return recorder.empty_cache();
  placement.write(false, BufferOrder::as_registered);
}

/// Nothing where the optimizer steps on the host, or parameter by parameter in the backward.
std::vector<ParameterGroup> stepped_on_device(const Job& job, std::vector<ParameterGroup> groups) {
  const bool elsewhere = job.parallelism.offload.optimizer || job.training->steps_in_backward;
  return elsewhere ? std::vector<ParameterGroup>{} : std::move(groups);
}

/// flatten_on_accelerator, or not.
void flatten(ZeroBuckets& buckets, bool on_host, Recorder& recorder) {
  const std::vector<StorageId> weights = placed_weights(recorder.timeline());
  if (!on_host) return buckets.construct(weights);
  const std::vector<StorageId> empty = buckets.send_weights(weights);
  recorder.empty_cache();
  buckets.construct(empty);
}

/// DeepSpeed's ZeRO 1 and 2: the optimizer steps a flat tensor a parameter group. Its buckets go on
/// filling from one micro-step to the next, so two that made the same events say nothing of a
/// third: all are followed.
Timeline write_deepspeed(const Graph& graph, const Job& job, std::int64_t data_rank) {
  Timeline timeline;
  const std::optional<LaunchDevice> device = launch_device(job.hardware.gpu);
  const ForwardOrder order(graph, device);
  const ModelTensors tensors = name_model(graph, order, graph.parameters, timeline);
  Recorder recorder(timeline, EqualMicroSteps::followed);
  recorder.begin(Phase::model);
  ModelPlacement placement(graph.parameters, job.training->recipe, tensors, recorder);
  place_for_engine(graph, job, placement, recorder);
  recorder.end();
  ZeroBuckets buckets({job, graph.parameters, data_rank, {}, device},
                      parameter_places(graph, order, timeline), recorder);
  recorder.begin(Phase::main_params);
  flatten(buckets, flattens_on_host(graph, job), recorder);
  recorder.end();
  EngineSettings settings = settings_of(graph, job, &buckets);
  if (zero_of(job).stage == ZeroStage::optimizer_gradients) settings.gradient_bytes = 0;
  settings.buffers = std::make_shared<LibraryBuffers>(workspaces_of(job), recorder);
  const auto teacher = teacher_model({job, graph, graph.parameters, order, data_rank}, settings,
                                     nullptr, {timeline, recorder});
  Engine engine(graph, order, settings, recorder);
  TrainingLoop loop({job, order, engine, buckets.optimizer(), recorder, teacher.get()});
  for (std::int64_t i = 1; i <= job.training->steps; ++i) loop.step(static_cast<std::uint16_t>(i));
  recorder.finish();
  return timeline;
}

/// DeepSpeed's ZeRO 3, of which all micro-steps are followed likewise.
Timeline write_partitioned(const Graph& graph, const Job& job, std::int64_t data_rank) {
  Timeline timeline;
  const std::optional<LaunchDevice> device = launch_device(job.hardware.gpu);
  const ForwardOrder order(graph, device);
  const ModelTensors tensors = name_model(graph, order, graph.parameters, timeline);
  Recorder recorder(timeline, EqualMicroSteps::followed);
  ModelPlacement placement(graph.parameters, job.training->recipe, tensors, recorder);
  PartitionedModel model({job, graph, order, data_rank, device}, recorder);
  const std::unique_ptr<PartitionedReference> reference = model.reference();
  const bool made_cut = zero_of(job).settings.zero_init;
  recorder.begin(Phase::model);
  if (made_cut) {
    placement.place_buffers();
    pass_barriers(job, ModelPlace::absent, recorder);
  } else {
    if (reference != nullptr) reference->place();
    place_for_engine(graph, job, placement, recorder);
  }
  recorder.end();
  recorder.begin(Phase::main_params);
  HeldVector pieces = model.cut(placement);
  if (made_cut && reference != nullptr) reference->place();
  model.construct(std::move(pieces));
  recorder.end();
  EngineSettings settings = settings_of(graph, job, &model);
  settings.gradient_bytes = 0;  // as they come
  settings.buffers = std::make_shared<LibraryBuffers>(workspaces_of(job), recorder);
  const auto teacher = teacher_model({job, graph, graph.parameters, order, data_rank}, settings,
                                     reference.get(), {timeline, recorder});
  Engine engine(graph, order, settings, recorder);
  TrainingLoop loop({job, order, engine, model.optimizer(), recorder, teacher.get()});
  for (std::int64_t i = 1; i <= job.training->steps; ++i) loop.step(static_cast<std::uint16_t>(i));
  recorder.finish();
  return timeline;
}

/// Why the job has no timeline yet, or nothing.
std::optional<Unavailable> refusal(const Job& job, const Inventory& parameters) {
  const Sharding sharding = sharding_of(job);
  if (runs_megatron(job) || std::holds_alternative<GradientAccumulator>(sharding)) return {};
  if (std::holds_alternative<DeepSpeedZero>(sharding)) return deepspeed_refusal(job);
  const bool in_units = units_of(sharding) != nullptr;
  const auto* shares = std::get_if<SharesOfFormula>(&sharding);
  const bool without_program = !job.training || shares != nullptr;
  if (job.parallelism.data > 1 && !in_units && without_program) {
    return Unavailable{"the timeline of ZeRO without a framework is not available yet"};
  }
  if (in_units && !job.training) {
    return Unavailable{"inference over sharded weights is not available yet"};
  }
  const bool gathers = job.forward()->recipe.casts_gathered();
  if (gathers && job.parallelism.shard_ranks() == 1) {
    return Unavailable{"the timeline of units gathered from one GPU is not available yet"};
  }
  if (auto unused = unused_refusal(job, parameters)) return unused;
  return gathers_refusal(job);
}

/// The events of a program whose loop is its own; none where it is the training loop's.
std::optional<Timeline> own_program(const Graph& graph, const Job& job, JobRank rank) {
  if (runs_megatron(job) || is_megatron_deepspeed(job)) {
    const MegatronRank megatron{graph, job, rank, settings_of(graph, job, nullptr),
                                launch_device(job.hardware.gpu)};
    return runs_megatron(job) ? write_megatron(megatron) : write_megatron_deepspeed(megatron);
  }
  if (shards_by<GradientAccumulator>(job)) {
    return write_nanotron(graph, job, rank, launch_device(job.hardware.gpu));
  }
  if (shards_by<DeepSpeedZero>(job)) {
    return zero_of(job).shards_weights() ? write_partitioned(graph, job, rank.data)
                                         : write_deepspeed(graph, job, rank.data);
  }
  return std::nullopt;
}

}  // namespace

std::variant<Timeline, Unavailable> write_timeline(const Graph& graph, const Job& job,
                                                   JobRank rank) {
  return write_timeline(graph, job, rank, EqualMicroSteps::copied);
}

std::variant<Timeline, Unavailable> write_timeline(const Graph& graph, const Job& job, JobRank rank,
                                                   EqualMicroSteps equal) {
  if (auto refused = refusal(job, graph.parameters)) return *std::move(refused);
  auto most = most_events(graph, job);
  if (auto* const refused = std::get_if<Unavailable>(&most)) return std::move(*refused);
  if (auto own = own_program(graph, job, rank)) return *std::move(own);
  Timeline timeline;
  timeline.events.reserve(static_cast<std::size_t>(std::get<std::int64_t>(most)));
  timeline.storages.reserve(timeline.events.capacity() / 2);
  const ForwardOrder order(graph, launch_device(job.hardware.gpu));
  const Inventory inventory = own_inventory(graph, job);
  const ModelTensors tensors = name_model(graph, order, inventory, timeline);
  Recorder recorder(timeline, equal);
  recorder.begin(Phase::model);
  ModelPlacement placement(inventory, job.forward()->recipe, tensors, recorder);
  set_up(placement, job, inventory, tensors);
  const auto buffers = std::make_shared<LibraryBuffers>(workspaces_of(job), recorder);
  placement.share(*buffers);
  const Wrapped wrapped{job, graph, inventory, order, rank.data};
  const std::unique_ptr<WholeUnit> reference = sharded_reference(graph, job, recorder);
  const ModelRecord record{timeline, recorder, reference.get()};
  place_model(wrapped, tensors, placement, record);
  const bool wrapped_later = habits_of(job).wrapping == Wrapping::before_training;
  if (wrapped_later) recorder.end();
  const LoopHabits& habits = habits_of(job);
  pass_barriers(job, ModelPlace::there, recorder);
  // Trainer._inner_training_loop: free_memory() stands before _prepare_for_training(), which wraps.
  if (habits.empties_cache && shards_by<ReplicasOfDdp>(job)) recorder.empty_cache();
  const Wrapper wrapper = wrapper_of(wrapped, placement, recorder);
  if (!wrapped_later) recorder.end();
  EngineSettings settings = settings_of(graph, job, wrapper.hooks.get());
  settings.buffers = buffers;
  if (job.inference) {
    run_prompts(*job.inference,
                {graph, order, settings, launch_device(job.hardware.gpu), timeline, recorder});
    recorder.finish();
    return timeline;
  }
  const auto teacher =
      teacher_model(wrapped, settings, wrapper_of_teacher(wrapped, settings, record), record);
  Engine engine(graph, order, settings, recorder);
  std::vector<ParameterGroup> groups = trained_groups(inventory, timeline, habits);
  if (shards_by<FlatShards>(job)) groups = {wrapper.hooks->stepped()};
  OptimizerRun optimizer(job, stepped_on_device(job, std::move(groups)),
                         launch_device(job.hardware.gpu), recorder);
  if (habits.empties_cache && !timeline.emptied_before) recorder.empty_cache();
  optimizer.construct();
  TrainingLoop loop({job, order, engine, optimizer, recorder, teacher.get()});
  std::optional<PipelineStages> stages;
  if (job.parallelism.pipeline > 1) {
    stages.emplace(PipelineStages::Parts{job, rank.pipeline, engine, wrapper.units, recorder});
    loop.run_in(*stages);
  }
  for (std::int64_t i = 1; i <= job.training->steps; ++i) loop.step(static_cast<std::uint16_t>(i));
  recorder.finish();
  return timeline;
}

}  // namespace memest
