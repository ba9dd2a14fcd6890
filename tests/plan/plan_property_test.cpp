// Plans of drawn specs against `estimate`: no plan that is shown is one that the estimate of the
// same job refuses, what is refused does not fit, what is the largest is the largest, and nothing
// depends on the number of threads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "../draws.hpp"
#include "candidates.hpp"
#include "jobs.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/largest.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/report/largest_report.hpp"
#include "memest/report/plan_report.hpp"

namespace memest {
namespace {

using test::job_of;

/// Specs of every implementation whose plans are near the memory of the GPU that is drawn with
/// them.
class Plans : test::Draws {
 public:
  using Draws::Draws;
  using Draws::one_of;

  PlanRequest draw() { return draw_on(one_of("rtx-4090", "a100-sxm-40gb", "h100-sxm-80gb", "l4")); }
  PlanRequest draw_on(const char* name) {
    PlanRequest request;
    request.job = test::job_from(spec());
    const Checked<GpuSpec> gpu = find_gpu(name);
    REQUIRE(gpu.ok());
    request.gpus = {gpu.value()};
    request.job.hardware.assumed = false;
    request.counts = {one_of(1, 2, 4), 8};
    request.finalists = request.misses = 2;
    return request;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string spec() {
    struct Program {
      std::string implementation;
      std::string precision;
    };
    const std::array<Program, 9> programs = {{
        {"transformers", one_of("mixed", "bf16", "fp32")},
        {"transformers", "amp-bf16"},
        {"{name: transformers, compile: blocks}", "bf16"},
        {"torchtitan", "amp-bf16"},
        {"{name: megatron, layers: te}", "megatron"},
        {"{name: megatron, layers: local, attention: unfused}", "megatron-bf16-grad"},
        {"nanotron", "mixed-fp32-grad"},
        {"nanogpt", "amp-bf16"},
        {"textbook", "mixed"},
    }};
    const Program& program = programs[drawn_++ % programs.size()];
    const bool nanogpt = program.implementation == "nanogpt";
    const int heads = one_of(16, 32);
    const int hidden_size = 128 * heads;
    const int layers = one_of(6, 12, 24);
    const bool mixture = program.precision.starts_with("megatron") && one_of(false, false, true);
    const std::string batch =
        one_of("global_batch: 32", "global_batch: 64", "gradient_accumulation: 4");
    const std::string vocabulary = one_of("32000", "128256");
    text_ =
        test::Text()
        << "model: {family: decoder, layers: " << layers << ", hidden_size: " << hidden_size
        << ", heads: " << heads
        << (nanogpt ? ", ffn_size: " + std::to_string(4 * hidden_size) +
                          ", vocab_size: 50304, activation: gelu, norm: layernorm, position: "
                          "learned, max_positions: 32768, bias: true, tied_embeddings: true"
                    : ", kv_heads: 8, ffn_size: " + std::to_string(11 * hidden_size / 4) +
                          ", vocab_size: " + vocabulary +
                          ", activation: swiglu, norm: rmsnorm, position: rope")
        << (mixture ? ", moe: {experts: 8, top_k: 2, expert_ffn_size: 1408, capacity_factor: 1.0}"
                    : "")
        << "}\ntraining: {seq_len: " << one_of("2048", "8192", "32768") << ", " << batch
        << ", precision: " << program.precision << ", implementation: " << program.implementation
        << "}\n";
    return text_;
  }
  std::size_t drawn_ = 0;
  std::string text_;
};

/// What `estimate` says of the job: of the rank that is worst off, and of the one that takes most.
struct Estimated {
  Verdict verdict = Verdict::does_not_fit;
  Bytes device;
  bool replayed = false;
};
std::optional<Estimated> estimated(const Job& job) {
  const JobEstimate estimate = estimate_job(job);
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return std::nullopt;
  Estimated result{memory->verdict, memory->device(), memory->replayed() != nullptr};
  for (const MemoryAnswer& other : estimate.other_ranks) {
    const bool worse = other.verdict == Verdict::does_not_fit || result.verdict == Verdict::fits;
    if (worse) result.verdict = other.verdict;
  }
  return result;
}

/// What `check` says of the job: that every rank and the host are within, or what is over by how
/// much, in the words of a refused row.
void check_against_budget(const Job& job, const PlanVerdict& row) {
  const std::vector<BudgetLine> lines = hold_to_budget(job, estimate_job(job));
  REQUIRE(!lines.empty());
  const auto has = [&lines](BudgetStatus status) {
    return std::ranges::any_of(lines,
                               [&](const BudgetLine& line) { return line.status == status; });
  };
  CHECK((row.verdict == Verdict::does_not_fit) == has(BudgetStatus::over));
  CHECK((row.verdict == Verdict::fits) ==
        (!has(BudgetStatus::over) && !has(BudgetStatus::too_close)));
  for (const BudgetLine& line : lines) {
    if (line.status != BudgetStatus::over || row.reason.empty()) continue;
    const std::string more = fmt::format("needs {:.1f} GiB more", (line.value - line.limit) / kGiB);
    INFO(row.reason);
    CHECK(row.reason.find(more) != std::string::npos);
  }
}

void check_against_estimate(const PlanRequest& request, const PlanVerdict& row) {
  const Job job = job_of(request, row.candidate);
  const auto estimate = estimated(job);
  REQUIRE(estimate);
  CHECK(row.verdict == estimate->verdict);
  CHECK(row.device == estimate->device);
  CHECK(row.replayed == estimate->replayed);
  check_against_budget(job, row);
}

/// The job with one more of what grows; 1,024 more of tokens.
Job grown(Job job, Growth growth) {
  switch (growth) {
    case Growth::micro_batch:
      ++job.training->micro_batch;
      break;
    case Growth::sequence:
      job.training->seq_len += 1024;
      break;
    case Growth::model:
      ++std::get<DecoderSpec>(job.model.architecture).order.front().repeat;
      break;
  }
  return job;
}

constexpr std::array kGrowths = {Growth::micro_batch, Growth::sequence, Growth::model};

}  // namespace

TEST_CASE("every row of a plan is what estimate and check say of the same job") {
  constexpr int kSpecs = 24;
  Plans plans(1);
  int standing = 0;
  int refused = 0;
  for (int i = 0; i < kSpecs; ++i) {
    const PlanRequest request = plans.draw();
    INFO(plans.text() << request.gpus.front().slug);
    const PlanAnswer answer = search_plans(request);
    for (const PlanVerdict& row : answer.best) check_against_estimate(request, row);
    for (const PlanVerdict& row : answer.front) {
      check_against_estimate(request, row);
      CHECK(row.verdict == Verdict::fits);
    }
    for (const PlanVerdict& row : answer.refused) {
      if (row.device == Bytes()) continue;  // no layout
      check_against_estimate(request, row);
      CHECK(row.verdict != Verdict::fits);
      ++refused;
    }
    standing += static_cast<int>(answer.best.size());
  }
  CHECK(standing > kSpecs / 2);
  CHECK(refused > 0);
}

TEST_CASE("the largest fits by estimate, and one step more does not") {
  constexpr int kSpecs = 9;
  Plans plans(2);
  int turned = 0;
  for (int i = 0; i < kSpecs; ++i) {
    PlanRequest request = plans.draw_on(plans.one_of("rtx-4090", "rtx-3080"));
    const Growth growth = kGrowths[static_cast<std::size_t>(i) % kGrowths.size()];
    request.counts = {plans.one_of(1, 4)};
    INFO(plans.text() << request.counts.front() << " x " << request.gpus.front().slug << ", "
                      << name_of(growth));
    const Largest largest = find_largest(request, growth).front();
    if (largest.value == 0) continue;
    INFO("the largest is " << largest.value);
    const auto& plan = std::get<PlanVerdict>(largest.plan);
    if (growth == Growth::sequence) request.job.training->seq_len = largest.value;
    if (growth == Growth::model) {
      auto& decoder = std::get<DecoderSpec>(request.job.model.architecture);
      decoder.order = {decoder.order.front()};
      decoder.order.front().repeat = largest.value;
    }
    check_against_estimate(request, plan);
    CHECK(plan.verdict == Verdict::fits);
    const auto more = estimated(grown(job_of(request, plan.candidate), growth));
    if (!more) continue;  // no such layout
    CHECK(more->verdict != Verdict::fits);
    ++turned;
  }
  CHECK(turned > kSpecs / 4);
}

TEST_CASE("no answer of a plan depends on the number of threads") {
  constexpr int kSpecs = 8;
  Plans plans(3);
  const Question question{"spec.yaml", "test"};
  for (int i = 0; i < kSpecs; ++i) {
    PlanRequest request = plans.draw_on("rtx-4090");
    INFO(plans.text() << request.gpus.front().slug);
    const Checked<GpuSpec> other = find_gpu("a100-sxm-40gb");
    REQUIRE(other.ok());
    request.gpus.push_back(other.value());
    const auto answers = [&](std::size_t threads) {
      request.threads = threads;
      return report_plan(request, search_plans(request), question, {.front = true}).json;
    };
    CHECK(answers(3) == answers(1));
    if (i > 0) continue;
    const auto largest = [&](std::size_t threads) {
      request.threads = threads;
      request.counts = {2};
      const std::vector<Largest> found = find_largest(request, Growth::micro_batch);
      return report_largest(request, Growth::micro_batch, found, question).json;
    };
    CHECK(largest(3) == largest(1));
  }
}

TEST_CASE("a search says what it does, and answers the same for it") {
  Plans plans(4);
  PlanRequest request = plans.draw_on("rtx-4090");
  const Question question{"spec.yaml", "test"};
  const auto answer = [&] {
    return report_plan(request, search_plans(request), question, {.front = true}).json;
  };
  const std::string unwatched = answer();
  std::array<int, 2> steps{};
  request.on_step = [&steps](PlanStep step) { ++steps[static_cast<std::size_t>(step)]; };
  CHECK(answer() == unwatched);
  CHECK(steps[static_cast<std::size_t>(PlanStep::layout)] > 0);
  CHECK(steps[static_cast<std::size_t>(PlanStep::replay)] > 0);
}

TEST_CASE("ranks of ZeRO are cut into flat parts of their own number, whoever asks first") {
  PlanRequest request;
  request.job =
      test::job_from("model: llama-3.2-1b\ntraining: {seq_len: 512}\nparallelism: {zero: 1}\n");
  request.gpus = {find_gpu("h200-sxm-141gb").value()};
  const auto found = [&](std::vector<std::int64_t> counts) {
    request.counts = std::move(counts);
    return search_plans(request).best;
  };
  const std::vector<PlanVerdict> both = found({4, 16});
  REQUIRE(both.size() == 2);
  for (const PlanVerdict& row : both) {
    const std::vector<PlanVerdict> alone = found({row.candidate.gpus});
    REQUIRE(alone.size() == 1);
    CHECK(alone.front().device == row.device);
  }
}

}  // namespace memest
