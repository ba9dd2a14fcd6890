#include <utility>

#include "../overheads.hpp"
#include "engine.hpp"
#include "loop.hpp"
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

/// Module.to().
void place_model(const Graph& graph, const Recipe& recipe, const ModelTensors& tensors,
                 Recorder& recorder) {
  const std::int64_t bytes = size_of(recipe.weights);
  for (const auto& [is_buffer, i] : tensors.order) {
    if (is_buffer) {
      const TensorPlace& buffer = tensors.buffers[i];
      const DType type = graph.parameters.buffers[buffer.row].dtype;
      recorder.allocate(checked_multiply(buffer.elements, size_of(type)),
                        model_label(Holding::buffers, Origin::buffer, i));
      continue;
    }
    const TensorPlace& tensor = tensors.parameters[i];
    recorder.allocate(checked_multiply(tensor.elements, bytes),
                      model_label(Holding::weights, Origin::parameter, i));
    if (graph.parameters.parameters[tensor.row].role != ParameterRole::matmul) continue;
    for (int copy = 0; copy < recipe.fp8_weight_copies; ++copy) {
      recorder.allocate(tensor.elements, model_label(Holding::weights, Origin::parameter, i));
    }
  }
}

std::vector<SteppedTensor> trained(const Graph& graph, const Timeline& timeline) {
  std::vector<SteppedTensor> tensors;
  for (std::size_t i = 0; i < timeline.parameters.size(); ++i) {
    const TensorPlace& place = timeline.parameters[i];
    const ParameterTensor& row = graph.parameters.parameters[place.row];
    if (row.trainable) tensors.push_back({static_cast<std::uint32_t>(i), place.elements, &row});
  }
  return tensors;
}

EngineSettings settings_of(const Job& job) {
  const TrainingSpec& training = *job.training;
  const Recipe& recipe = training.recipe;
  EngineSettings settings;
  settings.recompute = training.recompute;
  settings.workspaces = {cublas_workspace_bytes(job.hardware.gpu), kCublasLtWorkspace};
  if (recipe.gradients != recipe.weights) settings.gradient_bytes = size_of(recipe.gradients);
  return settings;
}

/// Nothing where the number of multiprocessors or the kernels for them are not known.
std::optional<LaunchDevice> device_of(const GpuSpec& gpu) {
  if (!gpu.multiprocessors) return std::nullopt;
  return launch_device(gpu.compute_capability, gpu.multiprocessors->value);
}

}  // namespace

std::variant<Timeline, Unavailable> write_timeline(const Graph& graph, const Job& job) {
  if (job.hardware.count > 1) {
    return Unavailable{"the timeline of several GPUs is not available yet"};
  }
  if (job.training->recipe.gathered_units) {
    return Unavailable{"the timeline of gathered units (FSDP2) is not available yet"};
  }
  Timeline timeline;
  const ForwardOrder order(graph, device_of(job.hardware.gpu));
  name_places(graph, order, timeline);
  const ModelTensors tensors = model_tensors(graph.parameters);
  timeline.parameters = tensors.parameters;
  timeline.buffers = tensors.buffers;
  Recorder recorder(timeline);
  OptimizerRun optimizer(job, trained(graph, timeline), recorder);
  recorder.begin(Phase::model);
  place_model(graph, job.training->recipe, tensors, recorder);
  recorder.end();
  optimizer.construct();
  Engine engine(graph, order, settings_of(job), recorder);
  TrainingLoop loop(job, order, engine, optimizer, recorder);
  for (std::int64_t i = 1; i <= job.training->steps; ++i) loop.step(static_cast<std::uint16_t>(i));
  return timeline;
}

}  // namespace memest
