// A search evaluates a ledger thousands of times, writes one for each recompute mode and ZeRO
// stage, and prints none. The aim: 200,000 evaluations a second on one core, everything included.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Job job_of(const std::string& model) {
  const std::string spec = "model: " + model + "\ntraining: {seq_len: 8192, recompute: full}\n";
  return read_job(std::make_shared<const SourceText>(SourceText{"bench.yaml", spec})).value();
}

Graph graph_of(const Job& job) {
  return std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
}

void lower_model(benchmark::State& state, const char* model) {
  const Job job = job_of(model);
  for (auto _ : state) benchmark::DoNotOptimize(graph_of(job));
}
BENCHMARK_CAPTURE(lower_model, llama, "llama-3-8b");

void write(benchmark::State& state, const char* model) {
  const Job job = job_of(model);
  const Graph graph = graph_of(job);
  for (auto _ : state) benchmark::DoNotOptimize(write_ledger(graph, job));
}
BENCHMARK_CAPTURE(write, llama, "llama-3-8b");
BENCHMARK_CAPTURE(write, sliding_windows, "gemma-2-9b");

void estimate(benchmark::State& state, const char* model) {
  const Job job = job_of(model);
  const Ledger ledger = write_ledger(graph_of(job), job);
  std::int64_t micro_batch = 1;
  for (auto _ : state) {
    micro_batch = micro_batch % 64 + 1;
    benchmark::DoNotOptimize(estimate_memory(ledger, bindings_at(ledger, micro_batch, 8192)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(estimate, llama, "llama-3-8b");
BENCHMARK_CAPTURE(estimate, sliding_windows, "gemma-2-9b");

void peak(benchmark::State& state, const char* model) {
  const Job job = job_of(model);
  const Ledger ledger = write_ledger(graph_of(job), job);
  std::int64_t micro_batch = 1;
  for (auto _ : state) {
    micro_batch = micro_batch % 64 + 1;
    benchmark::DoNotOptimize(peak_allocated(ledger, bindings_at(ledger, micro_batch, 8192)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(peak, llama, "llama-3-8b");
BENCHMARK_CAPTURE(peak, sliding_windows, "gemma-2-9b");

}  // namespace
}  // namespace memest
