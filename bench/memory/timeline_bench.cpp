// A step of a 32-layer model, written and replayed. The aim: 2 ms a step on one core.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/memory/packing.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Job llama_3_8b() {
  Job job = read_job({.files = {"llama-3-8b"}}).value();
  job.hardware.count = 1;
  job.hardware.memory = Bytes(1024 * kGiB);
  job.training->steps = 2;
  job.training->gradient_accumulation = 1;
  return job;
}

/// Two steps: the first makes the optimizer's states, the second is every later one.
void BM_WriteTimeline(benchmark::State& state) {
  const Job job = llama_3_8b();
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
  for (auto _ : state) benchmark::DoNotOptimize(write_timeline(graph, job));
}
BENCHMARK(BM_WriteTimeline)->Unit(benchmark::kMillisecond);

/// The aim: 10,000 tensors in a second.
void BM_PackTimeline(benchmark::State& state) {
  const Job job = llama_3_8b();
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
  const auto timeline = std::get<Timeline>(write_timeline(graph, job));
  for (auto _ : state) benchmark::DoNotOptimize(pack_timeline(timeline));
  state.counters["tensors"] = static_cast<double>(timeline.storages.size());
}
BENCHMARK(BM_PackTimeline)->Unit(benchmark::kMillisecond);

void BM_ReplayTimeline(benchmark::State& state) {
  const Job job = llama_3_8b();
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
  const auto timeline = std::get<Timeline>(write_timeline(graph, job));
  const ReplayDevice device = replay_device_of(job);
  for (auto _ : state) benchmark::DoNotOptimize(replay_steps(timeline, {}, device));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(timeline.events.size()));
}
BENCHMARK(BM_ReplayTimeline)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace memest
