// Intervals of published runs: what is printed of left-out sources is what leaving them out gives.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "memest/plan/residuals.hpp"

namespace memest {
namespace {

using Catch::Approx;

ValidatedRun step_of(RunSource source, double measured_over_expected) {
  ValidatedRun run;
  run.source = std::move(source);
  run.comparisons.push_back({Metric::step_seconds, "", measured_over_expected, 1.0});
  return run;
}

ValidatedRun bytes_of(RunSource source, Metric metric, int measured) {
  ValidatedRun run;
  run.source = std::move(source);
  run.comparisons.push_back({metric, "", Int128{measured}, Int128{10'000}});
  return run;
}

/// What the test knows of a drawn run.
struct Drawn {
  std::map<SourceKind, std::string> key;
  double ratio = 1;
};

/// Two significant digits of a percentage or hundredths, upwards.
double upwards(double share) {
  if (share <= 0) return 0;
  double unit = 1e-4;
  while (share >= 100 * unit) unit *= 10;
  return std::ceil(share / unit - 1e-9) * unit;
}

double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto left = static_cast<std::size_t>(std::floor(place));
  const std::size_t right = std::min(left + 1, values.size() - 1);
  return values[left] + (values[right] - values[left]) * (place - std::floor(place));
}

std::pair<double, double> ends_by_hand(const std::vector<Drawn>& runs, double share) {
  std::vector<double> ratios;
  for (const Drawn& run : runs) ratios.push_back(run.ratio);
  return {upwards(1 - at_share(ratios, (1 - share) / 2)),
          upwards(at_share(ratios, (1 + share) / 2) - 1)};
}

/// Sources, runs and how many of them lie within, of a kind left out by hand.
Coverage left_out(const std::vector<Drawn>& runs, SourceKind kind, double share) {
  std::map<std::string, std::vector<Drawn>> by_key;
  for (const Drawn& run : runs) by_key[run.key.at(kind)].push_back(run);
  Coverage coverage{.kind = kind};
  for (const auto& [key, own] : by_key) {
    std::vector<Drawn> others;
    for (const Drawn& run : runs) {
      if (run.key.at(kind) != key) others.push_back(run);
    }
    if (others.empty()) continue;
    const auto [low, high] = ends_by_hand(others, share);
    ++coverage.sources;
    for (const Drawn& run : own) {
      ++coverage.runs;
      if (run.ratio >= 1 - low && run.ratio <= 1 + high) ++coverage.within;
    }
  }
  return coverage;
}

struct DrawnSet {
  std::vector<ValidatedRun> runs;
  std::vector<Drawn> known;
};

/// Sources that differ from one another about as much as their runs do; of every tenth set all runs
/// are of one.
DrawnSet draw(std::mt19937& random, bool one_source) {
  const auto below = [&random](int most) {
    return std::uniform_int_distribution<int>(0, most - 1)(random);
  };
  DrawnSet set;
  const int frameworks = one_source ? 1 : 2 + below(6);
  const int gpus = one_source ? 1 : 2 + below(4);
  const int years = one_source ? 1 : 2 + below(5);
  const int count = 1 + below(90);
  std::vector<double> bias;
  for (int i = 0; i < frameworks; ++i) bias.push_back(std::exp(0.01 * (below(21) - 10)));
  for (int i = 0; i < count; ++i) {
    const int framework = below(frameworks);
    const RunSource source{.publication = "table " + std::to_string(below(9)),
                           .framework = "framework " + std::to_string(framework),
                           .gpu = "gpu-" + std::to_string(below(gpus)),
                           .year = 2020 + below(years)};
    const double ratio =
        bias[static_cast<std::size_t>(framework)] * std::exp(0.01 * (below(41) - 20));
    set.runs.push_back(step_of(source, ratio));
    set.known.push_back({{{SourceKind::framework, source.framework},
                          {SourceKind::gpu, source.gpu},
                          {SourceKind::year, std::to_string(source.year)}},
                         ratio});
  }
  return set;
}

TEST_CASE("the coverage that is told is that of sources left out, over 300 drawn sets of runs") {
  std::mt19937 random(18);
  int reached = 0;
  for (int i = 0; i < 300; ++i) {
    INFO("set " << i);
    DrawnSet set = draw(random, i % 10 == 9);
    const std::vector<ToldInterval> told = told_intervals(set.runs);
    REQUIRE(told.size() == 1);
    const ToldInterval& interval = told.front();
    CHECK(interval.figure == ToldFigure::step);
    CHECK(interval.margin.runs == static_cast<int>(set.runs.size()));

    // The narrowest share of the runs with which every kind holds four of five.
    int percent = 80;
    const auto least = [&](int share) {
      double held = 1;
      for (const SourceKind kind : kSourceKinds) {
        held = std::min(held, left_out(set.known, kind, share / 100.0).held());
      }
      return held;
    };
    while (least(percent) < 0.8 && percent < 99) ++percent;
    const auto [low, high] = ends_by_hand(set.known, percent / 100.0);
    CHECK(interval.margin.low == Approx(low));
    CHECK(interval.margin.high == Approx(high));
    CHECK(interval.margin.low >= 0);
    CHECK(interval.margin.low < 1);
    CHECK(interval.margin.high >= 0);
    for (std::size_t k = 0; k < kSourceKinds.size(); ++k) {
      const Coverage& found = interval.coverages[k];
      const Coverage expected = left_out(set.known, kSourceKinds[k], percent / 100.0);
      CHECK(found.kind == kSourceKinds[k]);
      CHECK(found.sources == expected.sources);
      CHECK(found.runs == expected.runs);
      CHECK(found.within == expected.within);
      CHECK(interval.margin.held <= found.held());
    }
    if (percent < 99) {
      CHECK(interval.margin.held >= 0.8);
      ++reached;
    }

    // Neither the order of the runs nor runs without a source say anything.
    std::shuffle(set.runs.begin(), set.runs.end(), random);
    ValidatedRun recorded = step_of({}, 100);
    recorded.source.reset();
    set.runs.push_back(recorded);
    const ToldInterval again = told_intervals(set.runs).front();
    CHECK(again.margin.low == interval.margin.low);
    CHECK(again.margin.high == interval.margin.high);
    CHECK(again.margin.held == interval.margin.held);
    CHECK(again.margin.sources == interval.margin.sources);
  }
  CHECK(reached > 100);
}

TEST_CASE("runs of one source alone have no coverage") {
  const RunSource source{"a table", "framework", "gpu", 2024};
  const ToldInterval interval =
      told_intervals({step_of(source, 1.1), step_of(source, 0.9)}).front();
  CHECK(interval.margin.held == 0);
  for (const Coverage& coverage : interval.coverages) {
    CHECK(coverage.sources == 0);
    CHECK(coverage.held() == 0);
  }
}

TEST_CASE("tokens a second tell a step, and what is nearest to a figure its bytes") {
  ValidatedRun pace;
  pace.source = RunSource{"a table", "framework", "gpu", 2024};
  pace.comparisons.push_back({Metric::tokens_per_second_per_gpu, "", 100.0, 150.0});
  ValidatedRun both = bytes_of(*pace.source, Metric::allocated_peak_bytes, 11'000);
  both.comparisons.push_back({Metric::reserved_peak_bytes, "", Int128{13'000}, Int128{10'000}});
  both.comparisons.push_back({Metric::device_bytes, "", Int128{15'000}, Int128{10'000}});
  const std::vector<ToldInterval> told = told_intervals({pace, both});
  REQUIRE(told.size() == 3);
  CHECK(told[0].margin.high == Approx(0.5));
  CHECK(told[1].figure == ToldFigure::reserved);
  CHECK(told[1].margin.high == Approx(0.3));
  CHECK(told[2].figure == ToldFigure::device);
  CHECK(told[2].margin.high == Approx(0.5));
  const SourceMargins margins = source_margins_of(told, {});
  CHECK(margins.step.runs == 1);
  CHECK(margins.reserved.high == Approx(0.3));
  CHECK(margins.device.high == Approx(0.5));
}

TEST_CASE("what has no prediction, or one of nothing, tells nothing") {
  const RunSource source{"a table", "framework", "gpu", 2024};
  ValidatedRun refused = step_of(source, 1);
  refused.comparisons.front().predicted = std::monostate{};
  ValidatedRun nothing = step_of(source, 1);
  nothing.comparisons.front().predicted = 0.0;
  CHECK(told_intervals({refused, nothing}).empty());
  CHECK(source_margins_of({}, {}).step.runs == 0);
}

}  // namespace
}  // namespace memest
