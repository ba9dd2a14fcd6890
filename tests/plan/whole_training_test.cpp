// What so many tokens take by a plan, and what a deadline leaves.
#include "memest/plan/whole_training.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>

#include "jobs.hpp"
#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

using Catch::Approx;

PlanRequest request_of(std::vector<const char*> gpus, std::vector<std::int64_t> counts) {
  PlanRequest request;
  request.job = test::gpt2("seq_len: 1024, global_batch: 64, precision: bf16");
  for (const char* gpu : gpus) request.gpus.push_back(find_gpu(gpu).value());
  request.counts = std::move(counts);
  request.prices = all_prices();
  return request;
}

bool is_times(const Spread& spread, double factor, const Spread& other) {
  return spread.expected == Approx(factor * other.expected) &&
         spread.low == Approx(factor * other.low) && spread.high == Approx(factor * other.high);
}

}  // namespace

TEST_CASE("A whole training is its steps one after another, its interval theirs") {
  std::mt19937 random(20260802);
  const PlanAnswer answer =
      search_plans(request_of({"h100-sxm-80gb", "a100-sxm-80gb", "rtx-4090", "l4"}, {1, 2, 4, 8}));
  REQUIRE(answer.best.size() == 16);
  for (const PlanVerdict& plan : answer.best) {
    const auto& time = std::get<TimeEstimate>(plan.time);
    const auto gpus = static_cast<double>(plan.candidate.gpus);
    for (int draw = 0; draw < 4; ++draw) {
      const double tokens = std::uniform_real_distribution<>(1e6, 1e13)(random);
      const auto training = std::get<WholeTraining>(whole_training_of(plan, tokens));
      const double steps = tokens / (64.0 * 1024.0);
      CHECK(is_times(training.seconds, steps,
                     {time.step.value(), time.low.value(), time.high.value()}));
      CHECK(is_times(training.gpu_hours, gpus / 3600, training.seconds));
      const auto* cost = std::get_if<CostEstimate>(&plan.cost);
      REQUIRE(training.dollars.has_value() == (cost != nullptr));
      if (cost == nullptr) continue;
      CHECK(training.dollars->expected == Approx(cost->per_billion_tokens.value() * tokens / 1e9));
      CHECK(is_times(*training.dollars, cost->per_hour.value() / 3600, training.seconds));
      CHECK(held_to(training, Seconds(training.seconds.high)) == InTime::surely);
      CHECK(held_to(training, Seconds(training.seconds.expected)) == InTime::expected);
      CHECK(held_to(training, Seconds(training.seconds.expected * 0.999)) == InTime::no);
    }
  }
}

TEST_CASE("With a deadline the rows that make it answer, and each other says what is missing") {
  PlanRequest request = request_of({"h100-sxm-80gb", "gb10"}, {1, 8});
  const PlanAnswer all = search_plans(request);
  REQUIRE(all.best.size() == 4);
  request.goal = Goal{.tokens = 1e11};
  CHECK(search_plans(request).best.size() == 4);
  std::vector<double> seconds;
  for (const PlanVerdict& plan : all.best) {
    const auto known = whole_training_of(plan, 1e11);
    if (const auto* training = std::get_if<WholeTraining>(&known)) {
      seconds.push_back(training->seconds.expected);
    }
  }
  REQUIRE(seconds.size() == 2);
  request.goal->within = Seconds((std::ranges::min(seconds) + std::ranges::max(seconds)) / 2);
  const PlanAnswer answer = search_plans(request);
  REQUIRE(answer.best.size() == 1);
  CHECK(answer.best.front().candidate.gpus == 8);
  REQUIRE(answer.refused.size() == 3);
  for (const PlanVerdict& late : answer.refused) {
    INFO(late.reason);
    if (late.candidate.gpu->slug == "gb10") {
      CHECK(late.reason.starts_with("how long it takes is not known: "));
    } else {
      CHECK(late.reason.starts_with("takes "));
      CHECK(late.reason.find(" allowed: needs 1.") != std::string::npos);
      CHECK(late.reason.ends_with(" times the speed"));
    }
  }
}

}  // namespace memest
