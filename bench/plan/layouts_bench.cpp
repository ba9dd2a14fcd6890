// A search over every layout of Llama-3-70B on up to 512 GPUs of three types: the aim is under a
// second on one core, and 1.8 times as fast on two.
#include <benchmark/benchmark.h>

#include "llama_70b.hpp"

namespace memest {
namespace {

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
