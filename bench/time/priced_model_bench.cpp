// The step of one layout of a job, as a search asks for it: well under a microsecond, without
// allocation.
#include <benchmark/benchmark.h>

#include <memory>

#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/time/priced_model.hpp"

namespace memest {
namespace {

Job megatron_job() {
  auto text = std::make_shared<SourceText>();
  text->name = "llama.yaml";
  text->text =
      "model: {family: decoder, layers: 64, hidden_size: 8192, heads: 64, kv_heads: 8, "
      "ffn_size: 28672, vocab_size: 128256, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 8192, precision: megatron, implementation: {name: megatron}}\n"
      "parallelism: {data: 16, tensor: 8, sequence: true, distributed_optimizer: true}\n"
      "hardware: {gpu: h100-sxm-80gb, count: 128}\n";
  return read_job(std::shared_ptr<const SourceText>(std::move(text))).value();
}

/// The whole model at one way to share its layers.
struct Priced {
  Job job = megatron_job();
  std::variant<Graph, Unavailable> graph = lower(job.model, policy_of(job));
  StepWork work = work_of(std::get<Graph>(graph), job);
  GpuLaws laws{job.hardware.gpu};
  Links links{laws, job.hardware};
  std::vector<OpPrice> prices =
      price_ops(work, links, places_of(job.parallelism, job.hardware.gpus_per_node));
};

void step_of_a_layout(benchmark::State& state) {
  const Priced priced;
  const PricedModel model({priced.work, priced.prices}, priced.job, priced.links);
  Parallelism layout = priced.job.parallelism;
  layout.pipeline = state.range(0);
  layout.data = 16 / layout.pipeline;
  for (auto _ : state) benchmark::DoNotOptimize(expected_step_time(model, layout, 32));
}
BENCHMARK(step_of_a_layout)->RangeMultiplier(2)->Range(1, 16);

void simulated_step_of_a_layout(benchmark::State& state) {
  const Priced priced;
  const PricedModel model({priced.work, priced.prices}, priced.job, priced.links);
  Parallelism layout = priced.job.parallelism;
  layout.pipeline = state.range(0);
  for (auto _ : state) benchmark::DoNotOptimize(model.simulated_step(layout, 32).total());
}
BENCHMARK(simulated_step_of_a_layout)->Arg(1)->Arg(4)->Arg(16);

void prices_of_a_model(benchmark::State& state) {
  const Priced priced;
  const GroupPlaces places = places_of(priced.job.parallelism, 8);
  for (auto _ : state) {
    benchmark::DoNotOptimize(price_ops(priced.work, priced.links, places).size());
  }
}
BENCHMARK(prices_of_a_model);

}  // namespace
}  // namespace memest
