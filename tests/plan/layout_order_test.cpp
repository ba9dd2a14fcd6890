// What the layout that is predicted fastest loses in cells of published runs.
#include "memest/plan/layout_order.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace memest {
namespace {

using Catch::Approx;

struct Pace {
  double measured = 0;
  double predicted = 0;
};

/// A published run of the cell that all of these share, of a layout of its own by its micro-batch.
ValidatedRun run_of(std::int64_t micro_batch, Pace pace) {
  ValidatedRun run;
  run.id = "m" + std::to_string(micro_batch);
  run.source = RunSource{"a page", "a framework", "a100-sxm-80gb", 2024};
  run.planned = PlannedRun{};
  run.planned->layout.micro_batch = micro_batch;
  run.comparisons.push_back({Metric::tokens_per_second_per_gpu, "", pace.measured, pace.predicted});
  return run;
}

std::vector<ValidatedRun> five_layouts() {
  return {run_of(1, {100, 90}), run_of(2, {120, 95}), run_of(4, {150, 140}), run_of(8, {180, 130}),
          run_of(16, {160, 120})};
}

TEST_CASE("a cell loses what the layout predicted fastest lacks of the fastest pace") {
  const std::vector<RankedCell> cells = ranked_cells(five_layouts());
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].layouts == 5);
  CHECK(cells[0].first == "m4");
  CHECK(cells[0].best == "m8");
  CHECK(cells[0].lost == Approx(30.0 / 180));
}

TEST_CASE("four layouts are no choice, nor are five in two cells") {
  std::vector<ValidatedRun> runs = five_layouts();
  runs.pop_back();
  CHECK(ranked_cells(runs).empty());
  runs = five_layouts();
  runs[0].planned->cell.gpus = 16;
  CHECK(ranked_cells(runs).empty());
}

TEST_CASE("a layout that ran several times stands for the median of its runs") {
  std::vector<ValidatedRun> runs = five_layouts();
  for (const double measured : {181.0, 300.0}) runs.push_back(run_of(4, {measured, 140}));
  const std::vector<RankedCell> cells = ranked_cells(runs);
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].layouts == 5);
  CHECK(cells[0].best == "m4");
  CHECK(cells[0].lost == 0);
}

TEST_CASE("a step without a pace stands for its tokens, one that is said in part does not count") {
  std::vector<ValidatedRun> runs = five_layouts();
  runs[3].planned->tokens_per_gpu = 1800;
  runs[3].comparisons = {{Metric::step_seconds, "", 10.0, 12.0}};  // 180 measured, 150 predicted
  CHECK(ranked_cells(runs).at(0).lost == 0);
  runs[3].approximate = std::move(runs[3].comparisons);
  runs[3].comparisons.clear();
  CHECK(ranked_cells(runs).empty());
}

TEST_CASE("a run that nobody published and one that is no training are in no cell") {
  std::vector<ValidatedRun> runs = five_layouts();
  runs[0].source.reset();
  CHECK(ranked_cells(runs).empty());
  runs = five_layouts();
  runs[0].planned.reset();
  CHECK(ranked_cells(runs).empty());
}

TEST_CASE("the order's margin is the median and the most of what cells lose, rounded up") {
  std::vector<RankedCell> cells(3);
  for (RankedCell& cell : cells) cell.layouts = 6;
  cells[1].lost = 0.01234;
  cells[2].lost = 0.2;
  const OrderMargin margin = order_margin_of(cells);
  CHECK(margin.cells == 3);
  CHECK(margin.layouts == 18);
  CHECK(margin.median_lost == Approx(0.013));
  CHECK(margin.most_lost == Approx(0.2));
  CHECK(order_margin_of({}).cells == 0);
}

}  // namespace
}  // namespace memest
