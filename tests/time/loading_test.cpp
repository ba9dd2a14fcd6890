// The law of a step that takes its batches from a DataLoader, beside a loader that is run.
#include "memest/time/loading.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "../draws.hpp"

namespace memest {
namespace {

using Catch::Approx;

struct Drawn {
  DataLoading loading;
  BatchDemand demand;
};

/// Steps of 1 s; batches whose making takes from a tenth of what a step leaves for one to three
/// times it.
Drawn drawn(test::Draws& draws) {
  Drawn result;
  result.loading.workers = 1 + static_cast<std::int64_t>(draws.below(9));
  result.loading.prefetch = 1 + static_cast<std::int64_t>(draws.below(4));
  BatchDemand& demand = result.demand;
  demand.batches = 1 + static_cast<std::int64_t>(draws.below(9));
  demand.step = 1;
  const auto batches = static_cast<double>(demand.batches);
  const auto workers = static_cast<double>(result.loading.workers);
  demand.between = draws.one_of(0.0, draws.share(), 1.0) / batches;
  demand.batch = (0.1 + 2.9 * draws.share()) * workers / batches;
  return result;
}

/// A loader as PyTorch's runs: each worker has a queue of its own, batches are dealt in turn and
/// come back in order, and one that is taken sends for another.
class Loader {
 public:
  Loader(const DataLoading& loading, double batch)
      : batch_(batch), clocks_(static_cast<std::size_t>(loading.workers), 0.0) {
    for (std::int64_t i = 0; i < loading.workers * loading.prefetch; ++i) send(0);
  }

  /// Takes the next batch at `now` or, where it is not ready, when it is.
  double take(double now) {
    const double taken = std::max(now, ready_.front());
    ready_.pop_front();
    send(taken);
    return taken;
  }

 private:
  void send(double now) {
    double& clock = clocks_[next_++ % clocks_.size()];
    clock = std::max(clock, now) + batch_;
    ready_.push_back(clock);
  }

  double batch_;
  std::vector<double> clocks_;  ///< when each worker has done what it was sent
  std::deque<double> ready_;
  std::size_t next_ = 0;
};

/// Seconds of a step behind the first `kSettling`, over as many as whole periods of up to nine
/// workers have.
double simulated_step(const Drawn& job) {
  constexpr int kSettling = 2520;
  constexpr int kSteps = 2520;
  const BatchDemand& demand = job.demand;
  const double rest = demand.step - static_cast<double>(demand.batches) * demand.between;
  Loader loader(job.loading, demand.batch);
  double now = 0;
  double settled = 0;
  for (int step = 0; step < kSettling + kSteps; ++step) {
    if (step == kSettling) settled = now;
    for (std::int64_t i = 0; i < demand.batches; ++i) now = loader.take(now) + demand.between;
    now += rest;
  }
  return (now - settled) / kSteps;
}

}  // namespace

TEST_CASE("a step with a data loader takes what a loader that is run makes of it") {
  constexpr int kDraws = 400;
  test::Draws draws(20261123);
  int held_up = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Drawn job = drawn(draws);
    INFO(job.loading.workers << " workers of " << job.loading.prefetch << ", " << job.demand.batches
                             << " batches of " << job.demand.batch << " s, " << job.demand.between
                             << " s between");
    const double step = loaded_step(job.loading, job.demand);
    CHECK(step == Approx(simulated_step(job)).epsilon(1e-3));
    const double supplied = static_cast<double>(job.demand.batches) * job.demand.batch /
                            static_cast<double>(job.loading.workers);
    const double least = std::max(job.demand.step, supplied);
    CHECK(step >= least);
    if (step > 1.001 * least) ++held_up;
  }
  // Shallow queues in front of uneven steps are among them.
  CHECK(held_up > kDraws / 20);
}

TEST_CASE("more workers and more batches ahead never make a step longer") {
  constexpr int kDraws = 1000;
  test::Draws draws(7);
  for (int draw = 0; draw < kDraws; ++draw) {
    Drawn job = drawn(draws);
    const double step = loaded_step(job.loading, job.demand);
    for (std::int64_t DataLoading::*more : {&DataLoading::workers, &DataLoading::prefetch}) {
      Drawn other = job;
      ++(other.loading.*more);
      CHECK(loaded_step(other.loading, other.demand) <= step * (1 + 1e-12));
    }
    const double utilisation = job.demand.step / step;
    CHECK(utilisation > 0);
    CHECK(utilisation <= 1);
    job.loading.workers = 0;
    CHECK(loaded_step(job.loading, job.demand) ==
          Approx(1 + static_cast<double>(job.demand.batches) * job.demand.batch));
  }
}

TEST_CASE("enough workers are the fewest with which a step does not wait") {
  constexpr int kDraws = 1000;
  test::Draws draws(8);
  for (int draw = 0; draw < kDraws; ++draw) {
    Drawn job = drawn(draws);
    const auto enough = enough_workers(job.loading, job.demand, kMostWorkers);
    REQUIRE(enough);
    job.loading.workers = *enough;
    CHECK(loaded_step(job.loading, job.demand) == Approx(1));
    job.loading.workers = *enough - 1;
    CHECK(loaded_step(job.loading, job.demand) > 1);
    const bool may = enough_workers(job.loading, job.demand, *enough - 1).has_value();
    CHECK_FALSE(may);
  }
}

TEST_CASE("a queue of fewer batches than an uneven step takes holds it up") {
  // One worker, eight batches of 1/8 s at once in front of a step of 1 s: two wait ready, six are
  // waited for.
  const BatchDemand at_once{.batches = 8, .batch = 0.125, .step = 1, .between = 0};
  DataLoading loading;
  loading.workers = 1;
  CHECK(loaded_step(loading, at_once) == Approx(1.75));
  loading.prefetch = 8;
  CHECK(loaded_step(loading, at_once) == Approx(1));
  BatchDemand one_by_one = at_once;
  one_by_one.between = 0.125;
  loading.prefetch = 2;
  CHECK(loaded_step(loading, one_by_one) == Approx(1));
}

}  // namespace memest
