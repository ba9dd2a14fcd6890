// Megatron's precision-aware optimizer: the types in which Transformer Engine's FusedAdam keeps
// what it has, and the copies with which it steps.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jobs.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using namespace testing;

/// What the optimizer's own main parameters are kept in, and its moments.
struct KeptTypes {
  std::string exp_avg;
  std::string exp_avg_sq;
  std::string main_params;
};

std::int64_t bytes_of(const std::string& type) { return type == "fp32" ? 4 : 2; }

/// Bytes an element of all states.
std::int64_t bytes_of(const KeptTypes& kept) {
  return bytes_of(kept.exp_avg) + bytes_of(kept.exp_avg_sq) + bytes_of(kept.main_params);
}

/// States that have a scale, and are stepped in an fp32 copy.
std::int64_t narrow_states(const KeptTypes& kept) {
  const auto narrow = [](const std::string& type) { return type == "bf16" || type == "fp16"; };
  return (narrow(kept.exp_avg) ? 1 : 0) + (narrow(kept.exp_avg_sq) ? 1 : 0) +
         (narrow(kept.main_params) ? 1 : 0);
}

std::vector<KeptTypes> all_kept_types() {
  std::vector<KeptTypes> all;
  for (const char* exp_avg : {"fp32", "bf16", "fp16"}) {
    for (const char* exp_avg_sq : {"fp32", "bf16", "fp16"}) {
      for (const char* main_params : {"remainders", "fp32", "fp16"}) {
        all.push_back({exp_avg, exp_avg_sq, main_params});
      }
    }
  }
  return all;
}

Job job_with(const KeptTypes& kept, const std::string& precision, int data = 1) {
  const std::string ranks = std::to_string(data);
  const std::string text =
      "model: {layers: 4, hidden_size: 256, heads: 4, ffn_size: 1024, vocab_size: 2048, "
      "activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 64, precision: " +
      precision + ", optimizer: {name: adamw, exp_avg: " + kept.exp_avg +
      ", exp_avg_sq: " + kept.exp_avg_sq + ", main_params: " + kept.main_params +
      "}, implementation: megatron}\nparallelism: {data: " + ranks +
      ", distributed_optimizer: true}\nhardware: {gpu: h100-sxm-80gb, count: " + ranks + "}\n";
  const Checked<Job> job =
      read_job(std::make_shared<const SourceText>(SourceText{"job.yaml", text}));
  REQUIRE(job.ok());
  return job.value();
}

/// Bytes asked for in the optimizer's phase of the last step: alive behind it, and the most in it.
struct StepCourse {
  std::int64_t states = 0;
  std::int64_t peak = 0;
};

StepCourse course_of(const Job& job) {
  const auto answer = write_timeline(lowered(job), job);
  const auto& timeline = std::get<Timeline>(answer);
  const Span* last = nullptr;
  for (const Span& span : timeline.spans) {
    if (span.phase == Phase::optimizer) last = &span;
  }
  REQUIRE(last != nullptr);
  StepCourse course;
  std::int64_t alive = 0;
  for (std::uint32_t i = 0; i < last->end; ++i) {
    const Storage& storage = timeline.storages[timeline.events[i].storage];
    const std::int64_t bytes =
        timeline.events[i].kind == EventKind::allocate ? storage.bytes : -storage.bytes;
    alive += bytes;
    if (i + 1 >= last->begin) course.peak = std::max(course.peak, alive);
    const bool of_parameter = storage.label.origin == Origin::parameter;
    if (of_parameter && storage.label.holding == Holding::optimizer_states) course.states += bytes;
  }
  return course;
}

std::int64_t tensors_of(const Graph& graph) {
  std::int64_t tensors = 0;
  for (const ParameterTensor& tensor : graph.parameters.parameters) tensors += tensor.count;
  return tensors;
}

}  // namespace

TEST_CASE("bytes a parameter are the sum of what is kept, and a scale a tensor and narrow state",
          "[memory][formulas]") {
  constexpr std::int64_t kParameters = 1'000'000;
  for (const KeptTypes& kept : all_kept_types()) {
    CAPTURE(kept.exp_avg, kept.exp_avg_sq, kept.main_params);
    for (const std::string precision : {"megatron", "megatron-bf16-grad"}) {
      const Job job = job_with(kept, precision);
      const Ledger ledger = write_ledger(states_only(one_tensor(kParameters)), job);
      const std::int64_t gradient = precision == "megatron" ? 4 : 2;
      CHECK(group_bytes(ledger, TermGroup::weights) == 2 * kParameters);
      CHECK(group_bytes(ledger, TermGroup::gradients) == gradient * kParameters);
      CHECK(named_bytes(ledger, "master weights") == 0);
      CHECK(named_bytes(ledger, "fp32 copies of the gradients") == 0);
      CHECK(named_bytes(ledger, "optimizer states") == bytes_of(kept) * kParameters);
      CHECK(named_bytes(ledger, "scales of narrow states") == 4 * narrow_states(kept));
      CHECK(named_bytes(ledger, "fp32 copies of narrow states") ==
            4 * narrow_states(kept) * kParameters);
    }
  }
}

TEST_CASE("the states of a rank are a share of their sum", "[memory][formulas]") {
  const Job job = job_with({"bf16", "bf16", "remainders"}, "megatron", 4);
  const Ledger ledger = write_ledger(states_only(one_tensor(kLlama3)), job);
  const LedgerTerm* states = nullptr;
  for (const LedgerTerm& term : ledger.terms) {
    if (term.name == "optimizer states: exp_avg, exp_avg_sq, master_param") states = &term;
  }
  REQUIRE(states != nullptr);
  CHECK(states->formula == 6 * Expr(Symbol::parameters) / Symbol::data);
}

TEST_CASE("the timeline has the states of the closed form, and its step", "[memory]") {
  for (const KeptTypes& kept : all_kept_types()) {
    CAPTURE(kept.exp_avg, kept.exp_avg_sq, kept.main_params);
    const Job job = job_with(kept, "megatron-bf16-grad");
    const Graph graph = lowered(job);
    const StepCourse course = course_of(job);
    const Ledger ledger = write_ledger(graph, job);
    const std::int64_t parameters = ledger.bindings.at(Symbol::parameters);
    CHECK(course.states ==
          bytes_of(kept) * parameters + 4 * narrow_states(kept) * tensors_of(graph));
    CHECK(course.states ==
          named_bytes(ledger, "optimizer states") + named_bytes(ledger, "scales of narrow states"));
    const double closed = total_at(ledger, "optimizer step").as_double();
    INFO(course.peak << " in the events, " << closed << " in the closed form");
    CHECK(closed > 0.99 * static_cast<double>(course.peak));
    CHECK(closed < 1.01 * static_cast<double>(course.peak));
  }
}

TEST_CASE("the fp32 copies of a parameter group stay until the next group's have their names",
          "[memory]") {
  const Job wide = job_with({"fp32", "fp32", "remainders"}, "megatron-bf16-grad");
  const Job half = job_with({"bf16", "bf16", "remainders"}, "megatron-bf16-grad");
  const std::int64_t parameters = ledger_of(wide).bindings.at(Symbol::parameters);
  const StepCourse before = course_of(wide);
  const StepCourse after = course_of(half);
  // Eight bytes of copies come, four of states go; beside the copies a bf16 one of the largest
  // tensor. Without the first group's copies the step would take less than the second's.
  const std::int64_t largest = 2 * 2048 * 256;
  CHECK(after.peak - before.peak >= (8 - 4) * parameters);
  CHECK(after.peak - before.peak <= (8 - 4) * parameters + 2 * largest);
}

}  // namespace memest
