// Chosen layers and budgets of recompute.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "drawn_jobs.hpp"
#include "memest/plan/recompute_budget.hpp"

namespace memest {
namespace {

using test::job_from;
using test::memory_of;

constexpr int kDrawn = 24;

std::string numbers(std::int64_t first, std::int64_t end) {
  std::string text;
  for (std::int64_t i = first; i < end; ++i) {
    text += (text.empty() ? "" : ", ") + std::to_string(i);
  }
  return text;
}

/// A small decoder of so many layers in a program that calls torch.utils.checkpoint.
class DrawnDecoders : test::Draws {
 public:
  using test::Draws::below;
  using test::Draws::Draws;
  using test::Draws::one_of;

  /// The job but for its recompute, which stands for "@".
  std::string spec(std::int64_t layers) {
    return test::Text() << "model: {family: decoder, layers: " << layers
                        << ", hidden_size: 256, heads: 8, kv_heads: " << one_of(2, 8)
                        << ", ffn_size: " << one_of(512, 1024)
                        << ", vocab_size: " << one_of(512, 5000)
                        << ", activation: " << one_of("swiglu", "gelu")
                        << ", norm: " << one_of("rmsnorm", "layernorm") << ", position: rope}\n"
                        << "training: {seq_len: " << one_of(128, 512)
                        << ", micro_batch: " << one_of(1, 4)
                        << ", gradient_accumulation: " << one_of(1, 1, 2)
                        << ", precision: " << one_of("bf16", "amp-bf16", "fp32")
                        << ", implementation: " << one_of("transformers", "transformers")
                        << ", recompute: @}\nhardware: {gpu: h200-sxm-141gb, count: 1}\n";
  }
};

/// A net of blocks of convolutions, of which so many can be recomputed.
std::string drawn_net(test::Draws& draws, std::int64_t blocks) {
  std::string layers;
  std::int64_t channels = 8 * draws.one_of(1, 2);
  std::int64_t side = 32;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t out = channels * draws.one_of(1, 1, 2);
    const bool strided = side > 4 && draws.one_of(false, false, true);
    if (strided) side /= 2;
    layers += test::Text() << "{repeat: 1, block: [{conv: {out: " << out
                           << ", kernel: 3, padding: 1, stride: " << (strided ? 2 : 1)
                           << ", bias: false}}, batchnorm, {relu: {in_place: " << draws.flag()
                           << "}}, {conv: {out: " << out
                           << ", kernel: 3, padding: 1, bias: false}}, batchnorm, "
                           << draws.one_of("{relu: {in_place: true}}", "{gelu: {}}") << "]}, ";
    channels = out;
  }
  return test::Text() << "model: {image: {channels: 3, height: 32, width: 32}, loss: "
                         "cross-entropy, layers: ["
                      << layers << "{adaptive_avgpool: {size: 1}}, flatten, {linear: {out: 10}}]}\n"
                      << "training: {seq_len: 1, micro_batch: " << draws.one_of(16, 48)
                      << ", precision: " << draws.one_of("fp32", "amp-bf16")
                      << ", optimizer: momentum, implementation: plain, recompute: @}\n"
                      << "hardware: {gpu: h200-sxm-141gb, count: 1}\n";
}

Job with(std::string spec, const std::string& recompute) {
  return job_from(spec.replace(spec.find('@'), 1, recompute));
}

void check_equal(const Job& left, const Job& right) {
  const JobEstimate one = estimate_job(left);
  const JobEstimate other = estimate_job(right);
  CHECK(memory_of(one).allocated() == memory_of(other).allocated());
  CHECK(memory_of(one).reserved() == memory_of(other).reserved());
  CHECK(memory_of(one).closed_form == memory_of(other).closed_form);
  CHECK(std::get<Bytes>(memory_of(one).saved) == std::get<Bytes>(memory_of(other).saved));
  CHECK(std::get<FlopsEstimate>(one.flops).executed() ==
        std::get<FlopsEstimate>(other.flops).executed());
  CHECK(std::get<TimeEstimate>(one.time).step == std::get<TimeEstimate>(other.time).step);
}

Bytes taken_by(const Job& job) { return memory_of(estimate_job(job)).of_capacity().high; }

double step_of(const Job& job) {
  return std::get<TimeEstimate>(estimate_job(job).time).step.value();
}

/// The answer for a budget, or nothing where no plan is within it.
std::optional<Job> within(const std::string& spec, Bytes budget) {
  const Job asked = with(spec, "{budget: " + std::to_string(budget.value()) + " B}");
  auto answer = with_recompute_in_budget(asked);
  REQUIRE_FALSE(std::holds_alternative<Unavailable>(answer));
  if (auto* job = std::get_if<Job>(&answer)) return std::move(*job);
  return std::nullopt;
}

}  // namespace

TEST_CASE("chosen layers that are the first are the first layers' recompute") {
  DrawnDecoders draws(20);
  for (int i = 0; i < kDrawn; ++i) {
    const std::int64_t layers = draws.one_of(2, 3, 5);
    const auto first = static_cast<std::int64_t>(1 + draws.below(static_cast<std::size_t>(layers)));
    const std::string spec = draws.spec(layers);
    INFO(spec << " first " << first);
    check_equal(with(spec, "{blocks: [" + numbers(0, first) + "]}"),
                with(spec, "{full: {method: block, layers: " + std::to_string(first) + "}}"));
  }
}

TEST_CASE("all chosen layers are every layer, no chosen one is none") {
  test::Draws draws(21);
  for (int i = 0; i < kDrawn; ++i) {
    const std::int64_t blocks = draws.one_of(1, 2, 4);
    const std::string spec = drawn_net(draws, blocks);
    INFO(spec);
    check_equal(with(spec, "{blocks: [" + numbers(0, blocks) + "]}"), with(spec, "full"));
    check_equal(with(spec, "{blocks: []}"), with(spec, "none"));
  }
}

TEST_CASE("a budget's plan is within it, and with a layer less it would not be") {
  DrawnDecoders draws(22);
  int between = 0;
  for (int i = 0; i < kDrawn; ++i) {
    const std::int64_t layers = draws.one_of(2, 4, 7);
    const std::string spec = draws.spec(layers);
    INFO(spec);
    const Bytes most = taken_by(with(spec, "none"));
    const Bytes least = taken_by(with(spec, "full"));
    const Bytes budget = least + Bytes((most - least).value() * draws.one_of(0, 1, 2, 3, 4) / 4);
    const std::optional<Job> job = within(spec, budget);
    REQUIRE(job);
    CHECK(job->training->recompute_budget == budget);
    CHECK(taken_by(*job) <= budget);
    const auto* full = std::get_if<FullRecompute>(&job->training->recompute);
    if (full == nullptr) continue;
    const bool some = full->method == RecomputeMethod::block;
    const std::int64_t count = some ? full->layers : layers;
    between += some ? 1 : 0;
    const std::string fewer =
        count == 1 ? "none" : "{full: {method: block, layers: " + std::to_string(count - 1) + "}}";
    CHECK(taken_by(with(spec, fewer)) > budget);
  }
  CHECK(between > 0);
}

TEST_CASE("a net's chosen blocks take the least time of all subsets that are within the budget") {
  test::Draws draws(23);
  int chosen_some = 0;
  for (int i = 0; i < 6; ++i) {
    const std::int64_t blocks = draws.one_of(2, 3, 4);
    const std::string spec = drawn_net(draws, blocks);
    INFO(spec);
    std::vector<std::pair<Bytes, double>> subsets;
    for (std::int64_t bits = 0; bits < std::int64_t{1} << blocks; ++bits) {
      std::string list;
      for (std::int64_t block = 0; block < blocks; ++block) {
        if ((bits >> block & 1) != 0) list += (list.empty() ? "" : ", ") + std::to_string(block);
      }
      const Job job = with(spec, "{blocks: [" + list + "]}");
      subsets.emplace_back(taken_by(job), step_of(job));
    }
    const Bytes most = subsets.front().first;
    const Bytes least = std::ranges::min(subsets).first;
    const Bytes budget = least + Bytes((most - least).value() * draws.one_of(0, 1, 2, 3) / 4);
    const std::optional<Job> job = within(spec, budget);
    REQUIRE(job);
    CHECK(taken_by(*job) <= budget);
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [taken, step] : subsets) {
      if (taken <= budget) best = std::min(best, step);
    }
    // A selective checkpoint may be faster still.
    CHECK(step_of(*job) <= best);
    chosen_some += std::holds_alternative<ChosenRecompute>(job->training->recompute) ? 1 : 0;
  }
  CHECK(chosen_some > 0);
}

TEST_CASE("a budget below every plan is told with the least that there is") {
  DrawnDecoders draws(24);
  const std::string spec = draws.spec(4);
  const auto answer = with_recompute_in_budget(with(spec, "{budget: 1 MiB}"));
  const auto* over = std::get_if<OverBudget>(&answer);
  REQUIRE(over != nullptr);
  CHECK(over->budget == Bytes(std::int64_t{1} << 20));
  Job least = with(spec, "none");
  least.training->recompute = over->smallest.recompute;
  CHECK(taken_by(least) == over->smallest.taken);
  CHECK(over->smallest.taken <= taken_by(with(spec, "full")));
}

TEST_CASE("a job whose budget is open has no answer by itself") {
  const Job job = test::gpt2("seq_len: 128, recompute: {budget: 20 GiB}");
  CHECK(std::holds_alternative<Unavailable>(estimate_job(job).memory));
  CHECK(std::holds_alternative<Unavailable>(step_memory_of(job)));
}

}  // namespace memest
