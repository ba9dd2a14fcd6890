#include "memory/accumulator/nanotron_program.hpp"

#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "memory/accumulator/nanotron_loop.hpp"
#include "memory/accumulator/nanotron_states.hpp"
#include "memory/engine/engine.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/states/overheads.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {
namespace {

EngineSettings settings_of_nanotron(const Graph& graph, const Job& job, BlockHooks* hooks) {
  EngineSettings settings;
  settings.checkpoints = checkpoint_plan_of(*job.training, graph.layers());
  settings.hooks = hooks;
  settings.gradients = true;
  settings.workspaces = workspaces_of(job);
  return settings;
}

}  // namespace

Timeline write_nanotron(const Graph& graph, const Job& job, JobRank rank,
                        const std::optional<LaunchDevice>& device) {
  Timeline timeline;
  const ForwardOrder order(graph, device);
  const ModelTensors tensors = name_model(graph, order, graph.parameters, timeline);
  Recorder recorder(timeline);
  recorder.begin(Phase::model);
  ModelPlacement(graph.parameters, job.training->recipe, tensors, recorder)
      .write(false, BufferOrder::as_registered);
  recorder.end();
  NanotronStates states({job, graph, order, device}, recorder);
  recorder.begin(Phase::ddp_buffers);
  states.wrap();
  recorder.end();
  recorder.begin(Phase::main_params);
  states.make_optimizer();
  recorder.end();
  // DistributedTrainer.train: gc.collect() and empty_cache() stand before the first step.
  recorder.empty_cache();
  Engine engine(graph, order, settings_of_nanotron(graph, job, &states), recorder);
  NanotronLoop loop({job, rank.pipeline, order, engine, states, recorder});
  for (std::int64_t i = 1; i <= job.training->steps; ++i) loop.step(static_cast<std::uint16_t>(i));
  recorder.finish();
  return timeline;
}

}  // namespace memest
