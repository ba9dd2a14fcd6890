// Times of PyTorch 2.11's _MultiProcessingDataLoaderIter with in_order, its default: _try_put_index
// deals batches to the workers in turn, prefetch_factor each at first, and _process_data sends
// another for each that is taken. With T(k) the moment at which batch k is taken, R(k) that at
// which it is ready, W workers and P batches each:
//   R(k) = max(T(k - P·W), R(k - W)) + batch        T(k) = max(T(k - 1) + what runs between, R(k))
// A step's time in the long run is the largest mean of a cycle of these two.
#include "memest/time/loading.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Relative rounding of sums of a few products.
constexpr double kRounding = 1e-12;

/// The cycle through `steps` steps that runs over their optimizers and, between two of them, over
/// as many batches of one worker as have room there: the longest that a shallow queue holds up.
double cycle_mean(const DataLoading& loading, const BatchDemand& demand, std::int64_t steps) {
  const std::int64_t taken = checked_multiply(steps, demand.batches);
  const std::int64_t rounds = (taken - 1) / loading.workers;
  if (rounds < loading.prefetch) return demand.step;
  const auto of = [](std::int64_t count) { return static_cast<double>(count); };
  const double rest = demand.step - of(demand.batches) * demand.between;
  return (rest + of(taken - rounds * loading.workers) * demand.between +
          of(rounds - loading.prefetch + 1) * demand.batch) /
         of(steps);
}

BatchDemand demand_of(const DataLoading& loading, const TakenBatches& taken,
                      const ComputedStep& computed) {
  return {.batches = taken.count,
          .batch = static_cast<double>(taken.samples) * loading.sample_seconds->value(),
          .step = computed.all,
          .between = taken.at_once ? 0 : computed.passes / static_cast<double>(taken.count)};
}

}  // namespace

double loaded_step(const DataLoading& loading, const BatchDemand& demand) {
  const double batches = static_cast<double>(demand.batches) * demand.batch;
  // _SingleProcessDataLoaderIter makes a batch when it is asked for.
  if (loading.workers == 0) return demand.step + batches;
  const auto workers = static_cast<double>(loading.workers);
  const double supplied = batches / workers;
  double longest = std::max(demand.step, supplied);
  if (demand.batch <= workers * demand.between) return longest;
  const double rest = demand.step - static_cast<double>(demand.batches) * demand.between;
  const double beyond = rest - static_cast<double>(loading.prefetch - 1) * demand.batch;
  // Cycles over as many more steps as deal whole rounds differ by the supply alone.
  const std::int64_t period = loading.workers / std::gcd(loading.workers, demand.batches);
  const std::int64_t first =
      checked_multiply(loading.prefetch, loading.workers) / demand.batches + 1;
  for (std::int64_t steps = first; steps <= first + period; ++steps) {
    // No cycle over so many steps, or more, is longer than this.
    const double bound = supplied + beyond / static_cast<double>(steps);
    if (bound <= longest * (1 + kRounding)) break;
    longest = std::max(longest, cycle_mean(loading, demand, steps));
  }
  return longest;
}

std::optional<std::int64_t> enough_workers(const DataLoading& loading, const BatchDemand& demand,
                                           std::int64_t most) {
  const auto suffice = [&](std::int64_t workers) {
    DataLoading other = loading;
    other.workers = workers;
    return loaded_step(other, demand) <= demand.step * (1 + kRounding);
  };
  if (!suffice(most)) return std::nullopt;
  std::int64_t too_few = 0;
  std::int64_t enough = most;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (suffice(middle) ? enough : too_few) = middle;
  }
  return enough;
}

double loading_wait(const TrainingSpec& training, const TakenBatches& taken,
                    const ComputedStep& computed) {
  const auto& loading = training.data;
  if (!loading) return 0;
  expect(loading->sample_seconds.has_value(), "a step with a loader knows the time of a sample");
  return loaded_step(*loading, demand_of(*loading, taken, computed)) - computed.all;
}

InputPipeline input_pipeline(const TrainingSpec& training, const TakenBatches& taken,
                             const ComputedStep& computed) {
  const DataLoading& loading = *training.data;
  const BatchDemand demand = demand_of(loading, taken, computed);
  const double step = loaded_step(loading, demand);
  const auto processes = static_cast<double>(std::max<std::int64_t>(loading.workers, 1));
  const double samples = static_cast<double>(taken.samples) * static_cast<double>(taken.count);
  return {.loading = loading,
          .supply = processes / loading.sample_seconds->value(),
          .demand = samples / computed.all,
          .utilisation = computed.all / step,
          .wait = Seconds(step - computed.all),
          .enough = enough_workers(loading, demand, kMostWorkers)};
}

}  // namespace memest
