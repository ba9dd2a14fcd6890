#include "memory/megatron/megatron_program.hpp"

#include "memest/spec/parallel/sharding.hpp"
#include "memory/megatron/megatron_loop.hpp"
#include "memory/megatron/megatron_states.hpp"
#include "memory/megatron/megatron_units.hpp"
#include "memory/sharding/model_tensors.hpp"

namespace memest {
namespace {

/// setup_model_and_optimizer: the model, the wrapper around it, the optimizer.
class MegatronRun {
 public:
  explicit MegatronRun(const MegatronRank& of)
      : of_(of),
        order_(of.graph, of.device),
        tensors_(name_model(of.graph, order_, of.graph.parameters, timeline_)),
        recorder_(timeline_) {}

  Timeline with_buffers() && {
    MegatronStates states({of_.job, of_.graph, order_, of_.rank}, timeline_);
    place(states.weights());
    in_phase(Phase::ddp_buffers, [&] { states.make_buffers(recorder_); });
    in_phase(Phase::main_params, [&] { states.make_main_params(of_.device, recorder_); });
    EngineSettings settings = of_.settings;
    settings.adds_to_buffers = true;
    train(states.weights(), settings, states);
    return std::move(timeline_);
  }

  Timeline with_units() && {
    MegatronUnits units({of_.job, of_.graph, order_, of_.rank}, recorder_);
    place(units.weights());
    in_phase(Phase::ddp_buffers, [&] { units.make_shares(); });
    // _init_each_parameter_group_buffers: gc.collect() and empty_cache() stand at its end.
    recorder_.empty_cache();
    in_phase(Phase::main_params, [&] { units.make_optimizer(of_.device); });
    EngineSettings settings = of_.settings;
    settings.hooks = &units;
    train(units.weights(), settings, units);
    return std::move(timeline_);
  }

 private:
  void place(MegatronWeights& weights) {
    in_phase(Phase::model, [&] { weights.place(tensors_, recorder_); });
  }

  template <class Work>
  void in_phase(Phase phase, const Work& work) {
    recorder_.begin(phase);
    work();
    recorder_.end();
  }

  void train(const MegatronWeights& weights, EngineSettings settings, SteppedStates& states) {
    weights.make_quantized(recorder_);
    settings.gradient_bytes = 0;
    settings.tensor_ranks = of_.job.parallelism.tensor;
    Engine engine(of_.graph, order_, settings, recorder_);
    MegatronLoop loop({of_.job, of_.rank.pipeline, order_, engine, states, recorder_, of_.device});
    // The first steps run as others do; one more is captured, whose events its replays do not make.
    const TrainingSpec& training = *of_.job.training;
    const std::int64_t captured = training.implementation.cuda_graph.full_iteration ? 1 : 0;
    for (std::int64_t i = 1; i <= training.steps + captured; ++i) {
      loop.step(static_cast<std::uint16_t>(i));
    }
    recorder_.finish();
  }

  const MegatronRank& of_;
  Timeline timeline_;
  ForwardOrder order_;
  ModelTensors tensors_;
  Recorder recorder_;
};

}  // namespace

bool runs_megatron(const Job& job) {
  return shards_by<MegatronBuffer>(job) || shards_by<BucketShards>(job);
}

Timeline write_megatron(const MegatronRank& of) {
  MegatronRun run(of);
  if (shards_by<BucketShards>(of.job)) return std::move(run).with_units();
  return std::move(run).with_buffers();
}

}  // namespace memest
