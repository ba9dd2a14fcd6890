// A search over every layout of Llama-3-70B on up to 512 GPUs of three types: the aim is under a
// second on one core, and 1.8 times as fast on two.
#include <benchmark/benchmark.h>

#include <memory>

#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

PlanRequest llama_70b() {
  auto text = std::make_shared<SourceText>();
  text->name = "llama.yaml";
  text->text =
      "model: llama-3-70b\n"
      "training: {seq_len: 8192, global_batch: 1536, precision: megatron, "
      "implementation: {name: megatron, layers: te}}\n";
  PlanRequest request;
  request.job = read_job(std::shared_ptr<const SourceText>(std::move(text))).value();
  for (const char* gpu : {"h100-sxm-80gb", "a100-sxm-80gb", "h200-sxm-141gb"}) {
    request.gpus.push_back(find_gpu(gpu).value());
  }
  for (std::int64_t count = 8; count <= 512; count *= 2) {
    request.counts.push_back(count);
    if (count * 3 <= 512) request.counts.push_back(count * 3);
  }
  request.prices = all_prices();
  return request;
}

void search_layouts(benchmark::State& state) {
  PlanRequest request = llama_70b();
  request.threads = static_cast<std::size_t>(state.range(0));
  std::size_t candidates = 0;
  for (auto _ : state) candidates += search_plans(request).candidates;
  state.counters["candidates"] =
      benchmark::Counter(static_cast<double>(candidates), benchmark::Counter::kAvgIterations);
  state.counters["a second"] =
      benchmark::Counter(static_cast<double>(candidates), benchmark::Counter::kIsRate);
}
BENCHMARK(search_layouts)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace memest
