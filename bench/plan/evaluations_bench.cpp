// Candidates of a search whose graphs, closed forms and prices are there: what each further layout,
// recompute and micro-batch costs, those that bounds leave out included. The aim is a million a
// second on one core.
#include <benchmark/benchmark.h>

#include <memory>

#include "llama_70b.hpp"
#include "plan/layouts/group_search.hpp"

namespace memest {
namespace {

/// Laws and links of a request's first GPU type.
TimedDevice device_of(const PlanRequest& request) {
  TimedDevice device;
  device.of = {&request.gpus.front(), device_class_of(request.gpus.front())};
  device.laws = std::make_unique<GpuLaws>(request.gpus.front());
  device.links = std::make_unique<Links>(*device.laws, request.job.hardware);
  return device;
}

void evaluate_candidates(benchmark::State& state) {
  const PlanRequest request = llama_70b();
  const std::vector<Recompute> recomputes = recompute_choices(request.job);
  LayoutForms forms(request.job, recomputes);
  LayoutTimes times(request.job, recomputes);
  // No candidate is followed: a whole model under Megatron has closed forms.
  const SearchSpace space{request, recomputes, forms, times, FollowCandidate{}};
  const TimedDevice device = device_of(request);
  const std::int64_t gpus = state.range(0);
  search_group(space, device, gpus);
  std::size_t candidates = 0;
  for (auto _ : state) candidates += search_group(space, device, gpus).candidates;
  state.counters["a second"] =
      benchmark::Counter(static_cast<double>(candidates), benchmark::Counter::kIsRate);
}
BENCHMARK(evaluate_candidates)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace memest
