// Two specs side by side: what holds of every pair, and that all formats say the same.
#include "memest/report/diff_report.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "memest/reader/read_job.hpp"
#include "memest/reader/written_keys.hpp"
#include "report/diff/changed_keys.hpp"
#include "report/diff/figures.hpp"

namespace memest {
namespace {

using Json = nlohmann::json;

/// A spec read and answered.
struct Answered {
  explicit Answered(std::vector<std::string> settings) {
    ReadRequest request{{"gpt2"}};
    for (std::string& setting : settings) request.overrides.push_back({"--set", setting});
    job = read_job(request).value();
    const std::vector<SpecKey> written = written_keys(request).value();
    for (const SpecKey& key : written) {
      keys.push_back({key.key, key.value, "spec"});
    }
    estimate = estimate_job(job);
  }
  [[nodiscard]] ComparedSpec compared(const char* name) const {
    return {name, job, estimate, keys};
  }

  Job job;
  JobEstimate estimate;
  std::vector<PlacedKey> keys;
};

const std::string kSmall = "training.global_batch=16";

/// Specs that differ in sizes, kinds of terms, GPUs and what is known of them.
const std::vector<Answered>& answers() {
  static const std::vector<Answered> all = {
      Answered({kSmall, "hardware.gpu=rtx-4090"}),
      Answered({kSmall, "hardware.gpu=rtx-4090", "training.micro_batch=4"}),
      Answered(
          {kSmall, "hardware.gpu=rtx-4090", "training.recompute=full", "training.optimizer=sgd"}),
      Answered({kSmall, "hardware.gpu=t4", "training.precision=fp32"}),
      Answered({kSmall, "hardware.gpu=h100-sxm-80gb", "hardware.count=2", "parallelism.data=2",
                "parallelism.zero=1"}),
      Answered({"model=t5-small", kSmall, "hardware.gpu=rtx-4090"}),
  };
  return all;
}

SpecComparison comparison_of(const Answered& a, const Answered& b) {
  return {a.compared("a"), b.compared("b"), false};
}

std::map<std::pair<std::string, std::string>, FigureRow> by_name(
    const std::vector<FigureRow>& rows) {
  std::map<std::pair<std::string, std::string>, FigureRow> named;
  for (const FigureRow& row : rows) named[{row.group, row.name}] = row;
  return named;
}

Json json_of(const SpecComparison& comparison) {
  return Json::parse(report_diff(comparison, Question{"a b", "0"}).json);
}

/// The rows of a table as lines of cells, blanks around them taken off.
std::string text_of_page(const SpecComparison& comparison) {
  return text_of(report_diff(comparison, Question{"a b", "0"}).page,
                 RenderOptions{false, true, 160, false});
}

}  // namespace

TEST_CASE("a spec and itself differ in nothing, and the answer says so", "[diff]") {
  for (const Answered& one : answers()) {
    const SpecComparison same = comparison_of(one, one);
    CHECK(changed_keys(same.a, same.b).empty());
    for (const FigureRow& row : figure_rows(same)) {
      INFO(row.group << ' ' << row.name);
      CHECK_FALSE(row.differs());
    }
    CHECK_FALSE(fits_no_more(same));
    const Json json = json_of(same);
    CHECK(json["equal"] == true);
    CHECK(json["summary"] == "Nothing differs: the specs say the same.");
    CHECK(text_of_page(same).starts_with("Nothing differs: the specs say the same.\n"));
  }
}

TEST_CASE("B against A is A against B with the sign turned", "[diff]") {
  for (const Answered& a : answers()) {
    for (const Answered& b : answers()) {
      const auto there = by_name(figure_rows(comparison_of(a, b)));
      const auto back = by_name(figure_rows(comparison_of(b, a)));
      REQUIRE(there.size() == back.size());
      for (const auto& [name, row] : there) {
        INFO(name.first << ' ' << name.second);
        const FigureRow& other = back.at(name);
        CHECK(row.a == other.b);
        CHECK(row.b == other.a);
        REQUIRE(row.difference.has_value() == other.difference.has_value());
        if (!row.difference) continue;
        const std::string one = signed_text(*row.difference, row.unit);
        const std::string turned = signed_text(*other.difference, row.unit);
        if (one == "0") {
          CHECK(turned == "0");
        } else {
          const auto amount = [](const std::string& text) {
            return text.starts_with("+") ? text.substr(1) : text.substr(std::string("−").size());
          };
          CHECK(one.starts_with("+") != turned.starts_with("+"));
          CHECK(amount(one) == amount(turned));
        }
      }
    }
  }
}

TEST_CASE("the terms' differences add up to the peaks'", "[diff]") {
  for (const Answered& a : answers()) {
    for (const Answered& b : answers()) {
      const bool known = std::holds_alternative<MemoryAnswer>(a.estimate.memory) &&
                         std::holds_alternative<MemoryAnswer>(b.estimate.memory);
      if (!known) continue;
      Bytes terms;
      for (const FigureRow& row : figure_rows(comparison_of(a, b))) {
        const bool term = row.group == "weights" || row.group == "gradients" ||
                          row.group == "optimizer" || row.group == "activations" ||
                          row.group == "buffers" || row.group == "overhead";
        if (term) terms += std::get<Bytes>(*row.difference);
      }
      const auto& memory_a = std::get<MemoryAnswer>(a.estimate.memory);
      const auto& memory_b = std::get<MemoryAnswer>(b.estimate.memory);
      CHECK(terms == memory_b.allocated() + memory_b.estimate.outside - memory_a.allocated() -
                         memory_a.estimate.outside);
    }
  }
}

TEST_CASE("text and JSON have the same keys, numbers and summary", "[diff]") {
  for (const Answered& a : answers()) {
    for (const Answered& b : answers()) {
      SpecComparison comparison = comparison_of(a, b);
      const Json json = json_of(comparison);
      const std::string text = text_of_page(comparison);
      CHECK(text.starts_with(json["summary"].get<std::string>() + "\n"));
      for (const Json& key : json["keys"]) {
        INFO(key);
        CHECK(text.find("  " + key["key"].get<std::string>() + " ") != std::string::npos);
      }
      std::size_t shown = 0;
      for (const FigureRow& row : figure_rows(comparison)) {
        const std::string line = "\n    " + row.name + " ";
        INFO(line);
        const bool expected = row.differs() && !row.one_sided;
        shown += expected ? 1 : 0;
        if (expected) CHECK(text.find(line) != std::string::npos);
      }
      std::size_t differing = 0;
      for (const Json& number : json["numbers"]) {
        if (!number["differs"].get<bool>() || number["difference"].is_null()) continue;
        ++differing;
        const bool negative = number["difference"].get<double>() < 0;
        const auto row = by_name(figure_rows(comparison)).at({number["group"], number["name"]});
        CHECK(signed_text(*row.difference, row.unit).starts_with(negative ? "−" : "+"));
      }
      CHECK(differing <= shown);
      comparison.every_row = true;
      CHECK(Json::parse(report_diff(comparison, Question{"a b", "0"}).json) == json);
    }
  }
}

TEST_CASE(
    "keys that are written differently come with their places, defaults only where they differ",
    "[diff]") {
  const Answered a({kSmall, "hardware.gpu=rtx-4090"});
  const Answered b(
      {kSmall, "hardware.gpu=rtx-4090", "training.micro_batch=4", "training.optimizer=adamw-8bit"});
  const std::vector<DifferingKey> keys = changed_keys(a.compared("a"), b.compared("b"));
  const auto find = [&keys](const std::string& key) {
    const auto found = std::ranges::find(keys, key, &DifferingKey::key);
    REQUIRE(found != keys.end());
    return *found;
  };
  CHECK(find("training.optimizer").b.value == "adamw-8bit");
  CHECK(find("training.micro_batch").b.value == "4");
  CHECK(find("training.micro_batch").b.place == "spec");
  CHECK(find("training.gradient_accumulation").is_default());
  CHECK(find("training.optimizer.implementation").is_default());
  CHECK(std::ranges::find(keys, "training.recompute", &DifferingKey::key) == keys.end());
}

TEST_CASE("what no more fits is told from what never did", "[diff]") {
  const Answered fits({kSmall, "hardware.gpu=rtx-4090"});
  const Answered large({kSmall, "hardware.gpu=rtx-4090", "hardware.memory=1 GiB"});
  CHECK(fits_no_more(comparison_of(fits, large)));
  CHECK_FALSE(fits_no_more(comparison_of(large, fits)));
  CHECK_FALSE(fits_no_more(comparison_of(large, large)));
  CHECK(json_of(comparison_of(fits, large))["summary"].get<std::string>().find("fits no more") !=
        std::string::npos);
  CHECK(json_of(comparison_of(large, fits))["summary"].get<std::string>().find("fits now") !=
        std::string::npos);
}

TEST_CASE("what one side cannot answer is said", "[diff]") {
  const SpecComparison comparison = comparison_of(answers().front(), answers().back());
  const Json json = json_of(comparison);
  REQUIRE_FALSE(json["not_known"].empty());
  CHECK(json["not_known"][0]["part"] == "memory");
  CHECK(json["not_known"][0]["a"] == "");
  CHECK(json["not_known"][0]["b"].get<std::string>().size() > 10);
  CHECK(text_of_page(comparison).find("Not known of B: memory, ") != std::string::npos);
}

}  // namespace memest
