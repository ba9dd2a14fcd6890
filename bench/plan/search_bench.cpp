// A search over every GPU of the catalog: what `memest plan` computes between reading and printing.
#include <benchmark/benchmark.h>

#include <memory>

#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

PlanRequest every_gpu() {
  auto text = std::make_shared<SourceText>();
  text->name = "llama.yaml";
  text->text =
      "model: {family: decoder, layers: 32, hidden_size: 4096, heads: 32, kv_heads: 8, "
      "ffn_size: 14336, vocab_size: 128256, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 8192, global_batch: 512, precision: mixed}\n";
  PlanRequest request;
  request.job = read_job(std::shared_ptr<const SourceText>(std::move(text))).value();
  request.gpus = all_gpus();
  request.counts = {8};
  request.prices = all_prices();
  return request;
}

void search_every_gpu(benchmark::State& state) {
  const PlanRequest request = every_gpu();
  std::size_t candidates = 0;
  for (auto _ : state) {
    const PlanAnswer answer = search_plans(request);
    candidates += answer.candidates;
    benchmark::DoNotOptimize(answer.best.size());
  }
  state.counters["candidates"] =
      benchmark::Counter(static_cast<double>(candidates), benchmark::Counter::kIsRate);
}
BENCHMARK(search_every_gpu)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace memest
