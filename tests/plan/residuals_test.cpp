// From recorded runs to margins.
#include "memest/plan/residuals.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <vector>

namespace memest {
namespace {

using Catch::Approx;

/// A run whose closed form says 10,000 bytes; it is not replayed.
ValidatedRun run_of(Framework implementation, int allocated, int reserved) {
  ValidatedRun run;
  run.kind = RunKind{.implementation = implementation, .recomputes = false};
  run.comparisons.push_back({Metric::allocated_peak_bytes, "", Int128{allocated}, Int128{10'000}});
  run.comparisons.push_back({Metric::reserved_peak_bytes, "", Int128{reserved}, {}});
  run.closed_form = Bytes(10'000);
  return run;
}

TEST_CASE("a margin is rounded outwards to two digits") {
  const std::vector<Margin> margins = margins_of({run_of(Framework::nanogpt, 9'989, 12'101)});
  REQUIRE(margins.size() == 1);
  CHECK(margins[0].low == Approx(0.0011));
  CHECK(margins[0].high == Approx(0.22));
  CHECK(margins[0].records == 1);
  CHECK_FALSE(margins[0].implementation);
  CHECK_FALSE(margins[0].recomputes);
}

TEST_CASE("an allocated peak above its prediction asks for no room below") {
  CHECK(margins_of({run_of(Framework::plain, 10'500, 11'000)})[0].low == 0);
}

TEST_CASE("an implementation has a row of its own where it has ten records, after that of all") {
  std::vector<ValidatedRun> runs(10, run_of(Framework::nanogpt, 10'000, 11'000));
  runs.push_back(run_of(Framework::plain, 10'000, 20'000));
  const std::vector<Margin> margins = margins_of(runs);
  REQUIRE(margins.size() == 2);
  CHECK_FALSE(margins[0].implementation);
  CHECK(margins[0].records == 11);
  CHECK(margins[1].implementation == Framework::nanogpt);
  CHECK(margins[1].high == Approx(0.1));
}

TEST_CASE("mixtures of experts widen no margin of dense models where there are two of them") {
  ValidatedRun mixture = run_of(Framework::transformers, 10'000, 14'000);
  mixture.kind->mixture = true;
  const ValidatedRun dense = run_of(Framework::transformers, 10'000, 11'000);
  const std::vector<Margin> apart = margins_of({dense, mixture, mixture});
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].high == Approx(0.1));
  CHECK_FALSE(apart[0].mixture);
  CHECK(apart[1].high == Approx(0.4));
  CHECK(apart[1].mixture);
  CHECK(apart[1].implementation == Framework::transformers);
  const std::vector<Margin> together = margins_of({dense, mixture});
  REQUIRE(together.size() == 1);
  CHECK(together[0].records == 2);
}

TEST_CASE("a replay is held to what was reserved, in rows after those of the closed form") {
  ValidatedRun run = run_of(Framework::transformers, 10'000, 12'000);
  run.comparisons.back().predicted = Int128{11'000};
  const std::vector<Margin> margins = margins_of({run});
  REQUIRE(margins.size() == 2);
  CHECK(margins[0].method == EstimateMethod::closed_form);
  CHECK(margins[1].method == EstimateMethod::replay);
  CHECK(margins[1].low == 0);
  CHECK(margins[1].high == Approx(0.091));
}

TEST_CASE("what ran out of memory, is refused or was not measured has no residual") {
  ValidatedRun refused;
  ValidatedRun unmeasured = run_of(Framework::plain, 10'000, 10'000);
  unmeasured.comparisons.pop_back();
  CHECK(margins_of({refused, unmeasured}).empty());
}

}  // namespace
}  // namespace memest
