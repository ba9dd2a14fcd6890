#include "memest/report/check_report.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

SourceSpan at(const std::string& file, std::int32_t line) {
  return {std::make_shared<const SourceText>(SourceText{file, ""}), line, 3, 11};
}

Bytes gib(std::int64_t count) { return Bytes(count * kGiB); }

CheckedFile file_of(const std::string& name, Bytes device) {
  CheckedFile file;
  file.file = name;
  file.has_budget = true;
  file.capacity = gib(80);
  file.now.figures = {{"device", device}, {"step", Seconds(0.5)}};
  file.now.keys = {{"model", "gpt2", at(name, 1)}, {"hardware.gpu", "h100", at(name, 9)}};
  file.lock = LockState::held;
  return file;
}

/// One that holds, one that moved in its line 4, one over its capacity.
CheckedSpecs three() {
  CheckedSpecs specs;
  specs.lock = "memest.lock";
  specs.files = {file_of("a.yaml", gib(40)), file_of("b|c.yaml", gib(50)),
                 file_of("d e.yaml", gib(90))};
  CheckedFile& moved = specs.files[1];
  moved.lock = LockState::moved;
  moved.moves.figures = {{"device", gib(40), gib(50)}, {"step", Seconds(0.4), Seconds(0.5)}};
  moved.moves.terms = {{"activations", gib(10), gib(19)}, {"gradients", gib(5), gib(6)}};
  moved.moves.keys = {{"training.micro_batch", "1", "2", at("b|c.yaml", 4), 0.9},
                      {"training.seq_len", std::nullopt, "8", at("b|c.yaml", 3), {}}};
  BudgetLine line{BudgetItem::capacity, BudgetStatus::over, 80.0 * kGiB, 90.0 * kGiB, 0, 0, ""};
  specs.files[2].lines = {{line, {{"weights", 60.0 * kGiB}}}};
  specs.passed_over = {"notes.yaml"};
  return specs;
}

}  // namespace

TEST_CASE("the summary counts the specs, and the page says what moved and where") {
  const CheckedSpecs specs = three();
  const std::string summary =
      "3 specs: 2 within budget, 1 over budget; memest.lock: 1 moved (higher); 1 file passed over.";
  CHECK(summary_of(specs) == summary);
  const Report report = report_check(specs, {"", "0.1.0"});
  CHECK(
      text_of(report.page, {}) ==
      summary + "\n\n" +
          "   spec       memory of a GPU    step  USD / B tokens  answer\n"
          " ✓ a.yaml    40.0 of 80.0 GiB  500 ms                  within budget, as locked\n"
          " ✗ b|c.yaml  50.0 of 80.0 GiB  500 ms                  within budget, moved from the "
          "lock\n"
          " ✗ d e.yaml  90.0 of 80.0 GiB  500 ms                  over budget, as locked\n"
          "\n"
          "b|c.yaml: within budget, moved from the lock\n"
          " ✗ device: 40.00 GiB → 50.00 GiB, +10.00 GiB (+25 %): activations +9.00 GiB, gradients "
          "+1.00 GiB\n"
          " ✗ step: 400 ms → 500 ms, +100 ms (+25 %)\n"
          "   b|c.yaml:4: training.micro_batch: 1 → 2 (90 % of it)\n"
          "   b|c.yaml:3: training.seq_len: none → 8\n"
          "\n"
          "d e.yaml: over budget, as locked\n"
          " ✗ capacity: 90.00 GiB of 80.00 GiB, 10.00 GiB over: weights 60.00 GiB\n"
          "\n"
          "1 file is no spec: notes.yaml.\n"
          "\n"
          "`memest check --update` writes what there is now to memest.lock.\n");
}

TEST_CASE("annotations stand on the line that moved the number") {
  CHECK(
      annotations_of(three()) ==
      "::error file=b|c.yaml,line=4,col=3,title=moved from the lock::device: 40.00 GiB → 50.00 "
      "GiB, +10.00 GiB (+25 %25): activations +9.00 GiB, gradients +1.00 GiB; "
      "training.micro_batch: 1 → 2 (90 %25 of it); training.seq_len: none → 8; also step +100 ms\n"
      "::error file=d e.yaml,line=9,col=3,title=over budget::capacity: 90.00 GiB of 80.00 GiB, "
      "10.00 GiB over: weights 60.00 GiB\n"
      "::notice title=memest check::3 specs: 2 within budget, 1 over budget; memest.lock: 1 moved "
      "(higher); 1 file passed over.\n");
}

TEST_CASE("a comment has its marker, one table, and what moved folded") {
  const std::string comment = comment_of(three());
  CHECK(comment ==
        "<!-- memest check -->\n"
        "### ❌ memest check\n\n"
        "3 specs: 2 within budget, 1 over budget; memest.lock: 1 moved (higher); 1 file passed "
        "over.\n\n"
        "| | spec | memory of a GPU | step | USD / B tokens | |\n"
        "|---|---|---:|---:|---:|---|\n"
        "| ❌ | <code>b\\|c.yaml</code> | 50.0 of 80.0 GiB <b>(+10.00 GiB)</b> | 500 ms <b>(+25 "
        "%)</b> |  | within budget, moved from the lock |\n"
        "| ❌ | <code>d e.yaml</code> | 90.0 of 80.0 GiB | 500 ms |  | over budget, as locked |\n"
        "| ✅ | <code>a.yaml</code> | 40.0 of 80.0 GiB | 500 ms |  | within budget, as locked |\n"
        "\n<details><summary>❌ <code>b\\|c.yaml</code>: device +10.00 GiB, "
        "<code>training.micro\\_batch: 1 → 2 (90 % of it)</code></summary>\n\n"
        "- line 4: <code>training.micro\\_batch: 1 → 2 (90 % of it)</code>\n"
        "- line 3: <code>training.seq\\_len: none → 8</code>\n"
        "\n| figure | locked | now | difference | |\n|---|---:|---:|---:|---:|\n"
        "| device | 40.00 GiB | 50.00 GiB | +10.00 GiB | +25 % |\n"
        "| step | 400 ms | 500 ms | +100 ms | +25 % |\n"
        "\n| term of the memory | locked | now | difference | |\n|---|---:|---:|---:|---:|\n"
        "| activations | 10.00 GiB | 19.00 GiB | +9.00 GiB | +90 % |\n"
        "| gradients | 5.00 GiB | 6.00 GiB | +1.00 GiB | +20 % |\n"
        "\n</details>\n"
        "\n<details><summary>❌ <code>d e.yaml</code>: over budget, as locked</summary>\n\n"
        "- capacity: 90.00 GiB of 80.00 GiB, 10.00 GiB over: weights 60.00 GiB\n"
        "\n</details>\n"
        "\n1 file is no spec: notes.yaml.\n"
        "\nWhere that is meant: <code>memest check --update</code>.\n");
}

TEST_CASE("a comment stays below what GitHub takes, however many specs there are") {
  CheckedSpecs specs = three();
  const CheckedFile moved = specs.files[1];
  const CheckedFile holds = specs.files[0];
  for (int i = 0; i < 2000; ++i) specs.files.push_back(i % 20 == 0 ? moved : holds);
  constexpr std::size_t kMostOfGitHub = 65'536;
  CHECK(comment_of(specs).size() < kMostOfGitHub);
  CHECK_THAT(comment_of(specs), ContainsSubstring(" more | | | | |\n"));
}

TEST_CASE("SARIF and code quality name the rule, the place and a fingerprint without numbers") {
  const CheckedSpecs specs = three();
  const json sarif = json::parse(sarif_of(specs, "0.1.0"));
  CHECK(sarif["version"] == "2.1.0");
  const json& run = sarif["runs"][0];
  CHECK(run["tool"]["driver"]["semanticVersion"] == "0.1.0");
  CHECK(run["properties"]["totals"]["moved"] == 1);
  REQUIRE(run["results"].size() == 2);
  for (const json& result : run["results"]) {
    const json& rule = run["tool"]["driver"]["rules"][result["ruleIndex"].get<std::size_t>()];
    CHECK(rule["id"] == result["ruleId"]);
    CHECK(rule["defaultConfiguration"]["level"] == result["level"]);
  }
  const json& place = run["results"][0]["locations"][0]["physicalLocation"];
  CHECK(place["artifactLocation"]["uri"] == "b%7Cc.yaml");
  CHECK(place["region"] == json{{"startLine", 4}, {"startColumn", 3}, {"endColumn", 14}});
  CHECK(run["results"][1]["partialFingerprints"]["memest/v1"] == "over-budget:d e.yaml:capacity");
  const json issues = json::parse(code_quality_of(specs));
  REQUIRE(issues.size() == 2);
  CHECK(issues[1]["check_name"] == "memest/over-budget");
  CHECK(issues[1]["severity"] == "major");
  CHECK(issues[1]["location"] == json{{"path", "d e.yaml"}, {"lines", {{"begin", 9}}}});
  CheckedSpecs none;
  CHECK(json::parse(code_quality_of(none)) == json::array());
  CHECK(json::parse(sarif_of(none, "0.1.0"))["runs"][0]["results"] == json::array());
}

TEST_CASE("JUnit has a case a budget and one a locked spec") {
  const std::string junit = junit_of(three());
  CHECK_THAT(junit, ContainsSubstring("tests=\"6\" failures=\"2\" errors=\"0\""));
  CHECK_THAT(junit, ContainsSubstring("<testcase classname=\"a.yaml\" name=\"lock\"/>"));
  CHECK_THAT(junit, ContainsSubstring("<property name=\"moved\" value=\"1\"/>"));
}

TEST_CASE("CSV ends with the totals") {
  const std::string csv = csv_of(report_check(three(), {"", "0.1.0"}).records);
  CHECK_THAT(csv, ContainsSubstring("b|c.yaml,device,moved,42949672960,53687091200,,,B\n"));
  CHECK_THAT(csv, ContainsSubstring("\n,specs,total,,3,,,\n"));
}

TEST_CASE("an updated lock is accepted, and the summary says what it took") {
  CheckedSpecs specs = three();
  specs.updated = true;
  for (CheckedFile& file : specs.files) file.accepted = true;
  specs.files.pop_back();
  CHECK(specs.status() == FileStatus::within);
  CHECK(summary_of(specs) ==
        "2 specs: 2 within budget; memest.lock is written: 1 moved (higher); 1 file passed over.");
  CHECK(annotations_of(specs).find("::error") == std::string::npos);
}

}  // namespace memest
