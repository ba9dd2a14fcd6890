#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "../overheads.hpp"
#include "engine.hpp"
#include "inference_loop.hpp"
#include "loop.hpp"
#include "loop_habits.hpp"
#include "memest/memory/timeline.hpp"
#include "model_tensors.hpp"
#include "optimizer_run.hpp"
#include "recorder.hpp"

namespace memest {
namespace {

Label model_label(Holding holding, Origin origin, std::size_t place) {
  Label label;
  label.holding = holding;
  label.origin = origin;
  label.place = static_cast<std::uint32_t>(place);
  return label;
}

void name_places(const Graph& graph, const ForwardOrder& order, Timeline& timeline) {
  for (const BlockInstance& instance : order.instances()) {
    const bool layer = graph.blocks[instance.block].checkpointable;
    timeline.places.push_back({instance.block, layer ? ++timeline.layers : 0});
  }
}

/// Module.to(), and what peft adds to a model that has its place.
class ModelPlacement {
 public:
  ModelPlacement(const Graph& graph, const Recipe& recipe, const ModelTensors& tensors,
                 Recorder& recorder)
      : inventory_(graph.parameters), recipe_(recipe), tensors_(tensors), recorder_(recorder) {}

  void write(bool adapted) {
    for (const auto& [is_buffer, i] : tensors_.order) {
      if (is_buffer) {
        place_buffer(i);
        continue;
      }
      if (adapted && row(i).trainable) continue;
      place(i, recipe_.weights);
      if (row(i).role != ParameterRole::matmul) continue;
      for (int copy = 0; copy < recipe_.fp8_weight_copies; ++copy) place(i, DType::uint8);
    }
    if (adapted) place_adapters();
  }

 private:
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const {
    return inventory_.parameters[tensors_.parameters[parameter].row];
  }

  StorageId place(std::size_t parameter, DType dtype) {
    return recorder_.allocate(
        checked_multiply(tensors_.parameters[parameter].elements, size_of(dtype)),
        model_label(Holding::weights, Origin::parameter, parameter));
  }

  void place_buffer(std::size_t i) {
    const TensorPlace& buffer = tensors_.buffers[i];
    const DType type = inventory_.buffers[buffer.row].dtype;
    recorder_.allocate(checked_multiply(buffer.elements, size_of(type)),
                       model_label(Holding::buffers, Origin::buffer, i));
  }

  /// Matrices in the weights' type first, then copies of whole modules; then each matrix is
  /// widened.
  void place_adapters() {
    std::vector<std::pair<std::size_t, StorageId>> matrices;
    for (const bool whole : {false, true}) {
      for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
        if (!row(i).trainable || row(i).whole_module != whole) continue;
        const StorageId placed = place(i, recipe_.weights);
        if (!whole) matrices.emplace_back(i, placed);
      }
    }
    const DType trained = recipe_.trained.value_or(recipe_.weights);
    if (trained == recipe_.weights) return;
    for (const auto& [parameter, narrow] : matrices) {
      place(parameter, trained);
      recorder_.release(narrow);
    }
  }

  const Inventory& inventory_;
  const Recipe& recipe_;
  const ModelTensors& tensors_;
  Recorder& recorder_;
};

/// The optimizer's groups: what decays, where the loop makes the difference, and the rest.
std::vector<ParameterGroup> trained(const Graph& graph, const Timeline& timeline,
                                    const LoopHabits& habits) {
  ParameterGroup decaying;
  ParameterGroup rest;
  for (std::size_t i = 0; i < timeline.parameters.size(); ++i) {
    const TensorPlace& place = timeline.parameters[i];
    const ParameterTensor& row = graph.parameters.parameters[place.row];
    if (!row.trainable) continue;
    const bool decays = habits.decays != nullptr && habits.decays(row);
    (decays ? decaying : rest).push_back({static_cast<std::uint32_t>(i), place.elements, &row});
  }
  return {std::move(decaying), std::move(rest)};
}

EngineSettings settings_of(const Job& job) {
  const Recipe& recipe = job.forward()->recipe;
  EngineSettings settings;
  settings.recompute = job.recompute();
  settings.gradients = job.training.has_value();
  settings.workspaces = {cublas_workspace_bytes(job.hardware.gpu), kCublasLtWorkspace};
  if (recipe.gradients != recipe.trained.value_or(recipe.weights))
    settings.gradient_bytes = size_of(recipe.gradients);
  return settings;
}

/// Nothing where the number of multiprocessors or the kernels for them are not known.
std::optional<LaunchDevice> device_of(const GpuSpec& gpu) {
  if (!gpu.multiprocessors) return std::nullopt;
  return launch_device(gpu.compute_capability, gpu.multiprocessors->value);
}

/// How many prompts the timeline answers: all make the same events, and a few let the allocator
/// settle.
constexpr std::uint16_t kPrompts = 3;

/// Why the job has no timeline yet, or nothing.
std::optional<Unavailable> refusal(const Job& job) {
  if (job.hardware.count > 1) {
    return Unavailable{"the timeline of several GPUs is not available yet"};
  }
  if (job.forward()->recipe.gathered_units) {
    return Unavailable{"the timeline of gathered units (FSDP2) is not available yet"};
  }
  return std::nullopt;
}

}  // namespace

std::variant<Timeline, Unavailable> write_timeline(const Graph& graph, const Job& job) {
  if (auto refused = refusal(job)) return *std::move(refused);
  Timeline timeline;
  const ForwardOrder order(graph, device_of(job.hardware.gpu));
  name_places(graph, order, timeline);
  const ModelTensors tensors = model_tensors(graph.parameters);
  timeline.parameters = tensors.parameters;
  timeline.buffers = tensors.buffers;
  Recorder recorder(timeline);
  recorder.begin(Phase::model);
  ModelPlacement(graph, job.forward()->recipe, tensors, recorder)
      .write(job.model.adapter.has_value());
  recorder.end();
  Engine engine(graph, order, settings_of(job), recorder);
  if (job.inference) {
    InferenceLoop loop(order, engine, recorder);
    for (std::uint16_t i = 1; i <= kPrompts; ++i) loop.prompt(i);
    return timeline;
  }
  const LoopHabits& habits = loop_habits_of(job.training->implementation.loop);
  OptimizerRun optimizer(job, trained(graph, timeline, habits), device_of(job.hardware.gpu),
                         recorder);
  if (habits.empties_cache) {
    timeline.emptied_before = static_cast<std::uint32_t>(timeline.events.size());
  }
  optimizer.construct();
  TrainingLoop loop(job, order, engine, optimizer, recorder);
  for (std::int64_t i = 1; i <= job.training->steps; ++i) loop.step(static_cast<std::uint16_t>(i));
  return timeline;
}

}  // namespace memest
