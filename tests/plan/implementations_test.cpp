// Several implementations side by side: the answer is the best of them, each at its own best.
#include "memest/plan/implementations.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "../draws.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_choices.hpp"

namespace memest {
namespace {

double dollars(const PlanVerdict& plan) {
  return std::get<CostEstimate>(plan.cost).per_billion_tokens.value();
}

bool answers(const PlanVerdict& plan) {
  return plan.verdict == Verdict::fits && plan.reason.empty();
}

std::vector<ImplementationChoice> choices_of(const std::vector<std::string>& overrides) {
  ReadRequest request{{"llama-3-8b"}};
  for (const std::string& text : overrides) request.overrides.push_back({"--set", text});
  const auto choices = read_choices(request, {});
  REQUIRE(choices.ok());
  return choices.value();
}

}  // namespace

TEST_CASE("The first row is the cheapest of all implementations, each at its own best") {
  constexpr int kDraws = 3;
  test::Draws draws(20260803);
  int other_than_first = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<std::string> overrides{
        std::string("model.hf.num_hidden_layers=") + draws.one_of("4", "8", "16"),
        std::string("training.seq_len=") + draws.one_of("2048", "8192"),
        std::string("training.global_batch=") + draws.one_of("32", "64"),
        std::string("training.precision=") + draws.one_of("mixed", "amp-bf16")};
    INFO(overrides[0] << ' ' << overrides[1] << ' ' << overrides[2] << ' ' << overrides[3]);
    const auto choices = choices_of(overrides);
    REQUIRE(choices.size() == 5);
    PlanRequest request;
    request.gpus = {find_gpu("h100-sxm-80gb").value(),
                    find_gpu(draws.one_of("l40s", "rtx-4090")).value()};
    request.counts = {draws.one_of(2, 8)};
    request.prices = all_prices();
    const ComparedPlans plans = compare_implementations(request, choices);
    REQUIRE_FALSE(plans.answer.best.empty());
    const PlanVerdict& first = plans.answer.best.front();
    REQUIRE(plans.compared.size() == choices.size());
    if (first.choice != 0) ++other_than_first;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const ComparedChoice& compared = plans.compared[i];
      REQUIRE(compared.choice == i);
      const auto* plan = std::get_if<PlanVerdict>(&compared.plan);
      if (plan == nullptr || !answers(*plan)) continue;
      CHECK(plan->candidate.gpu == first.candidate.gpu);
      CHECK(dollars(first) <= dollars(*plan));
      PlanRequest alone = request;
      alone.job = *choices[i].job;
      alone.gpus = {*first.candidate.gpu};
      const PlanAnswer answer = search_plans(alone);
      REQUIRE_FALSE(answer.best.empty());
      CHECK(dollars(answer.best.front()) == dollars(*plan));
    }
    request.threads = 3;
    const ComparedPlans again = compare_implementations(request, choices);
    REQUIRE(again.answer.best.size() == plans.answer.best.size());
    for (std::size_t i = 0; i < again.answer.best.size(); ++i) {
      CHECK(again.answer.best[i].choice == plans.answer.best[i].choice);
      CHECK(dollars(again.answer.best[i]) == dollars(plans.answer.best[i]));
    }
  }
  CHECK(other_than_first > 0);
}

TEST_CASE("An implementation that refuses the spec stands beside the others with its reason") {
  const auto choices = choices_of({"training.optimizer=lion", "model.hf.num_hidden_layers=4"});
  PlanRequest request;
  request.gpus = {find_gpu("h100-sxm-80gb").value()};
  request.counts = {8};
  request.prices = all_prices();
  const ComparedPlans plans = compare_implementations(request, choices);
  REQUIRE(plans.compared.size() == choices.size());
  CHECK(std::holds_alternative<PlanVerdict>(plans.compared.front().plan));
  REQUIRE(std::holds_alternative<Unavailable>(plans.compared.back().plan));
  CHECK(std::get<Unavailable>(plans.compared.back().plan).sentence == choices.back().refusal);
}

}  // namespace memest
