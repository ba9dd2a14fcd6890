// Pages for a browser: what their charts draw is what the JSON answer says.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../page_data.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// The charts of a command's page; a build without the library of charts has none.
json charts_of(const std::string& words) {
  json charts = data_in(run_shell("memest " + words + " --format html").out)["charts"];
  if (charts.empty()) SKIP("this memest was built without the library of charts");
  return charts;
}

json answer_of(const std::string& words) {
  return json::parse(run_shell("memest " + words + " --format json").out);
}

struct DrawnMark {
  double x = 0;
  double y = 0;
  friend auto operator<=>(const DrawnMark&, const DrawnMark&) = default;
};

/// Every mark of a chart, in no order that means anything.
std::vector<DrawnMark> marks_in(const json& chart) {
  std::vector<DrawnMark> marks;
  for (const json& series : chart["series"]) {
    for (const json& mark : series["marks"]) marks.push_back({mark[0], mark[1]});
  }
  std::ranges::sort(marks);
  return marks;
}

std::vector<DrawnMark> sorted(std::vector<DrawnMark> marks) {
  std::ranges::sort(marks);
  return marks;
}

TEST_CASE("the treemap is the ledger") {
  const std::string words = "estimate gpt2 --gpu rtx-4090";
  std::map<std::string, double> drawn;
  const json charts = charts_of(words);
  for (const json& group : charts[0]["areas"]) {
    double sum = 0;
    for (const json& part : group["parts"]) {
      drawn[part["name"]] += part["number"].get<double>();
      sum += part["number"].get<double>();
    }
    CHECK(sum == group["number"]);
  }
  std::map<std::string, double> said;
  const json answer = answer_of(words);
  for (const json& term : answer["memory"]["ranks"][0]["terms"]) {
    if (term["bytes"] > 0) said[term["name"]] += term["bytes"].get<double>();
  }
  CHECK(drawn == said);
  double seconds = 0;
  for (const json& group : charts[1]["areas"]) seconds += group["number"].get<double>();
  double bound = 0;
  for (const json& op : answer["time"]["bound"]) bound += op["seconds"].get<double>();
  CHECK(seconds == Approx(bound));
}

TEST_CASE("the roofline has every operation of the answer") {
  const std::string words = "roofline gpt2 --gpu a100-sxm-80gb";
  const json chart = charts_of(words)[0];
  const double column = chart["x"]["low"];
  const json answer = answer_of(words);
  std::vector<DrawnMark> said;
  for (const json& op : answer["operations"]) {
    const double flops = op["flops"];
    if (flops > 0) {
      said.push_back({flops / op["bytes"].get<double>(), flops / op["seconds"].get<double>()});
    } else {
      said.push_back({column, op["share_of_roof"].get<double>() *
                                  (column * answer["bytes_per_second"].get<double>())});
    }
  }
  CHECK(marks_in(chart) == sorted(said));
  CHECK(std::ranges::any_of(said, [&](const DrawnMark& mark) { return mark.x == column; }));
}

TEST_CASE("the plan draws its first rows and its front") {
  const std::string words =
      "plan llama-3.2-1b --gpu h100-sxm-80gb,a100-sxm-80gb --gpus 1,2 --front";
  std::vector<DrawnMark> said;
  const json answer = answer_of(words);
  for (const char* list : {"best", "front"}) {
    for (const json& plan : answer[list]) {
      said.push_back(
          {plan["cost"]["per_billion_tokens"].get<double>(),
           plan["time"]["tokens_per_second_per_gpu"].get<double>() * plan["gpus"].get<double>()});
    }
  }
  CHECK(marks_in(charts_of(words)[0]) == sorted(said));
}

TEST_CASE("the ladder has every rung with a time") {
  const std::string words = "fit gpt2 --memory 6GiB";
  const json answer = answer_of(words);
  std::vector<DrawnMark> said;
  json rungs = answer["rungs"];
  rungs.push_back(answer["as_written"]);
  for (const json& rung : rungs) {
    if (rung.contains("step_seconds")) said.push_back({rung["memory_bytes"], rung["step_seconds"]});
  }
  CHECK(marks_in(charts_of(words)[0]) == sorted(said));
}

TEST_CASE("budgets are drawn as shares of their limits, fullest first") {
  const std::string words = "check tests/browser/within.yaml tests/browser/over.yaml";
  std::vector<double> said;
  const json answer = answer_of(words);
  for (const json& file : answer["files"]) {
    for (const json& budget : file["budgets"]) {
      said.push_back(budget["value"].get<double>() / budget["limit"].get<double>());
    }
  }
  std::ranges::sort(said, std::greater<>());
  const json chart = charts_of(words)[0];
  REQUIRE(chart["y"]["ticks"].size() == said.size());
  for (const DrawnMark& mark : marks_in(chart)) {
    CHECK(mark.x == said[static_cast<std::size_t>(mark.y)]);
  }
}

TEST_CASE("a validation draws the errors of its answer") {
  const std::string words = "validate tests/truth/nanogpt.records.jsonl.gz";
  std::vector<double> said;
  const json answer = answer_of(words);
  for (const json& run : answer["runs"]) {
    for (const json& figure : run["figures"]) {
      const bool peak = figure["metric"] == "allocated_peak_bytes" && figure["part"] == "";
      if (peak && figure.contains("error")) said.push_back(figure["error"]);
    }
  }
  std::ranges::sort(said);
  std::vector<double> drawn;
  const json charts = charts_of(words);
  for (const json& mark : charts[0]["series"][0]["marks"]) drawn.push_back(mark[0]);
  std::ranges::sort(drawn);
  CHECK(drawn == said);
}

TEST_CASE("every page has a verdict, the specs as they stand and its command") {
  const std::string spec = file_text(MEMEST_SOURCE_DIR "/tests/browser/within.yaml");
  const std::string command =
      GENERATE("estimate", "plan --gpu h100-sxm-80gb", "timeline", "roofline", "check", "fit");
  const std::size_t space = std::min(command.find(' '), command.size());
  const std::string words =
      command.substr(0, space) + " tests/browser/within.yaml" + command.substr(space);
  const std::string page = run_shell("memest " + words + " --format html").out;
  CHECK_THAT(page, ContainsSubstring("<dl class=\"headlines\">"));
  CHECK_THAT(page, ContainsSubstring(spec.substr(0, spec.find('\n'))));
  CHECK_THAT(page, ContainsSubstring("<pre>memest " + words + " --format html</pre>"));
  CHECK(page.size() < 2'000'000);
}

TEST_CASE("a preset's text is on its page, and standard input is said to be read once") {
  CHECK_THAT(run_shell("memest estimate gpt2 --format html").out,
             ContainsSubstring("<summary>models/gpt2.yaml</summary>"));
  CHECK_THAT(run_shell("memest init | memest estimate - --format html").out,
             ContainsSubstring("<summary>standard input</summary>"));
}

TEST_CASE("commands without a page say which formats there are") {
  const Ran ran = run_shell("memest gpus --format html");
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, ContainsSubstring("html"));
}

}  // namespace
}  // namespace memest
