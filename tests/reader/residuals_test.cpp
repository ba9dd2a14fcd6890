// The file of margins, and which of its rows an implementation gets.
#include "memest/reader/residuals.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("margins are written a row each") {
  const std::string text = write_residuals(
      {{EstimateMethod::closed_form, 0.001, 0.26, 97, {}, false},
       {EstimateMethod::replay, 0, 0.334, 13, Framework::transformers, true}},
      {.step = {.low = 0.19, .high = 0.335, .runs = 292, .sources = 40, .held = 0.81},
       .reserved = {.low = 0.15, .high = 0.3, .runs = 60, .sources = 9, .held = 0.8},
       .device = {},
       .order = {.cells = 3, .layouts = 33, .median_lost = 0, .most_lost = 0.22}});
  CHECK_THAT(
      text, ContainsSubstring(
                "residuals:\n"
                "  - {method: closed-form, gpus: one, recomputes: false, records: 97, low: 0.1 %, "
                "high: 26 %}\n"
                "  - {implementation: transformers, method: replay, gpus: one, recomputes: true, "
                "records: 13, low: 0 %, high: 33.4 %}\n"
                "published:\n"
                "  - {of: step, runs: 292, publications: 40, held: 81 %, low: 19 %, high: 33.5 %}\n"
                "  - {of: reserved, runs: 60, publications: 9, held: 80 %, low: 15 %, high: 30 %}\n"
                "  - {of: device, runs: 0, publications: 0, held: 0 %, low: 0 %, high: 0 %}\n"
                "order: {cells: 3, layouts: 33, median_lost: 0 %, most_lost: 22 %}\n"));
  CHECK(find_source_margins().order.cells > 0);
}

TEST_CASE("published runs of left-out sources lie in the carried intervals, four of five") {
  const SourceMargins margins = find_source_margins();
  for (const SourceMargin& margin : {margins.step, margins.reserved, margins.device}) {
    CHECK(margin.runs >= 50);
    CHECK(margin.sources >= 5);
    CHECK(margin.held >= 0.8);
    CHECK(margin.low > 0);
    CHECK(margin.low < 0.5);
    CHECK(margin.high > 0);
    CHECK(margin.high < 1);
  }
}

TEST_CASE("an implementation without a row of its own gets that of all") {
  const Margins own = find_margins({Framework::transformers}).front().closed_form;
  CHECK(own.kept.implementation == Framework::transformers);
  CHECK(own.recomputed.recomputes);
  const Margins of_all = find_margins({Framework::textbook}).front().closed_form;
  CHECK_FALSE(of_all.kept.implementation);
  CHECK(of_all.kept.records >= own.kept.records);
  CHECK(of_all.kept.high > 0);
}

}  // namespace
}  // namespace memest
