// What a search refuses by states alone: no job needs less than its states.
#include "memest/memory/state_ledger.hpp"

#include <catch2/catch_test_macros.hpp>
#include <variant>

#include "drawn_jobs.hpp"
#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {

TEST_CASE("the states of a rank never take more than its peak") {
  constexpr int kJobs = 300;
  constexpr double kNoticeable = 0.1;
  test::DrawnJobs jobs(24);
  int noticed = 0;
  for (int i = 0; i < kJobs; ++i) {
    const Job job = jobs.draw();
    for (std::int64_t rank = 0; rank < job.parallelism.pipeline; ++rank) {
      const auto lowered = lower(job.model, policy_of(job, rank));
      REQUIRE(std::holds_alternative<Graph>(lowered));
      const auto& graph = std::get<Graph>(lowered);
      const Ledger states = write_state_ledger(graph, job, {.pipeline_rank = rank});
      const Ledger step = write_ledger(graph, job, rank);
      const MemoryEstimate of_states = estimate_memory(states, states.bindings);
      const MemoryEstimate of_step = estimate_memory(step, step.bindings);
      const Bytes least = of_states.allocated();
      const Bytes peak = of_step.allocated();
      INFO(i << ": " << name_of(job.training->implementation.framework) << " rank " << rank << ", "
             << least.value() << " of " << peak.value());
      CHECK(least <= peak);
      CHECK(of_states.low() <= of_step.low());
      if (least / peak > kNoticeable) ++noticed;
    }
  }
  CHECK(noticed > kJobs / 2);
}

}  // namespace memest
