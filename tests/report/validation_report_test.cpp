// What `memest validate` prints, and the plot that it writes.
#include "memest/report/validation_report.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>
#include <string>

#include "memest/report/display.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

ValidatedRun run_of(const std::string& id, int predicted) {
  ValidatedRun run;
  run.id = id;
  run.group = "transformers training, no recompute";
  run.traits = {"llama", "bf16", "sdpa", "none"};
  run.comparisons.push_back(
      {Metric::allocated_peak_bytes, "", Int128{1'000'000'000}, Int128{predicted}});
  run.comparisons.push_back({Metric::outcome, "", Int128{1}, Int128{0}});
  return run;
}

ValidationAnswer answer() {
  ValidationAnswer answer;
  answer.runs = {run_of("a", 1'000'000'000), run_of("b<&", 980'000'000)};
  answer.runs.emplace_back();
  answer.runs.back().id = "later";
  answer.runs.back().refusal = "FSDP is not available yet";
  return answer;
}

TEST_CASE("a validation says how far off each group is, the worst rows and what is refused") {
  const std::string text = text_of(report_validation(answer(), {}).page, {});
  CHECK_THAT(text, ContainsSubstring("3 records, 2 of them predicted"));
  CHECK_THAT(text, ContainsSubstring("allocated_peak_bytes"));
  CHECK_THAT(text, ContainsSubstring("-2.00 %"));
  CHECK_THAT(text, ContainsSubstring("oom"));
  CHECK_THAT(text, ContainsSubstring("FSDP is not available yet"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= kTextColumns);
}

TEST_CASE("a validation says how many published runs lie in intervals made without their source") {
  ValidationAnswer published = answer();
  published.intervals = {
      {.figure = ToldFigure::step,
       .margin = {.low = 0.19, .high = 0.33, .runs = 216, .sources = 31, .held = 0.81},
       .coverages = {Coverage{SourceKind::framework, 7, 216, 190},
                     Coverage{SourceKind::gpu, 6, 216, 176},
                     Coverage{SourceKind::year, 6, 216, 189}}},
      {.figure = ToldFigure::device,
       .margin = {.low = 0.15, .high = 0.33, .runs = 118, .sources = 9, .held = 0.8},
       .coverages = {Coverage{SourceKind::framework, 4, 118, 96},
                     Coverage{SourceKind::gpu, 0, 0, 0}, Coverage{SourceKind::year, 5, 118, 95}}}};
  const Report report = report_validation(published, {});
  CHECK_THAT(
      text_of(report.page, {}),
      ContainsSubstring(
          "Intervals of published runs, held to the sources left out\n"
          "  interval of  ends           left out, each in turn  sources  runs  within  held\n"
          "  step         −19 % / +33 %  every framework               7   216     190  88 %\n"
          "                              every GPU                     6   216     176  81 %\n"
          "                              every year                    6   216     189  88 %\n"
          "  device       −15 % / +33 %  every framework               4   118      96  81 %\n"
          "                              every GPU                     0     0       0     –\n"
          "                              every year                    5   118      95  81 %\n"));
  CHECK_THAT(report.json, ContainsSubstring("\"publications\": 31"));
}

TEST_CASE("the histogram loses no sign without UTF-8") {
  RenderOptions ascii;
  ascii.unicode = false;
  const std::string text = text_of(report_validation(answer(), {}).page, ascii);
  CHECK(text == to_ascii(text));
  CHECK_THAT(text, !ContainsSubstring("?"));
  CHECK_THAT(text, ContainsSubstring("##"));
}

TEST_CASE("the records of a validation are a row a figure") {
  const Table records = report_validation(answer(), {}).records;
  CHECK(records.rows.size() == 4);
  for (const Row& row : records.rows) CHECK(row.cells.size() == records.columns.size());
}

TEST_CASE("the drawing has a mark a run and figure, named and made harmless") {
  const std::string svg = scatter_of(answer().runs);
  CHECK_THAT(svg, ContainsSubstring("<svg xmlns="));
  CHECK_THAT(svg, ContainsSubstring("b&lt;&amp;: allocated peak 953.7 MiB, predicted 2.00 % lower"));
  CHECK_THAT(svg, !ContainsSubstring("b<&"));
  CHECK_THAT(scatter_of({}), ContainsSubstring("</svg>"));
}

}  // namespace
}  // namespace memest
