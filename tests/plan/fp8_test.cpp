// The recipe fp8: the layers' products take the fp8 laws with their casts; all else is as in bf16.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <variant>

#include "jobs.hpp"
#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/time/step_time.hpp"

namespace memest {
namespace {

TimeEstimate time_of(const std::string& precision, const std::string& gpu) {
  const Job job =
      test::llama("seq_len: 8192, precision: " + precision, "hardware: {gpu: " + gpu + "}\n");
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(job)));
  return std::get<TimeEstimate>(estimate_step_time(graph, job, count_flops(graph, job)));
}

double seconds_of(const TimeEstimate& time, const std::string& block, const std::string& op) {
  double seconds = 0;
  for (const OpTime& part : time.ops) {
    if (part.block == block && part.op == op) seconds += part.seconds.value();
  }
  return seconds;
}

TEST_CASE("fp8 shortens the layers' products, by less than the peaks' ratio", "[plan]") {
  for (const char* gpu : {"h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "b300-sxm-288gb",
                          "gb200", "rtx-pro-6000-server", "l40s"}) {
    INFO(gpu);
    const TimeEstimate half = time_of("mixed-fp32-grad", gpu);
    const TimeEstimate fp8 = time_of("fp8", gpu);
    CHECK(fp8.step < half.step);
    const double gain =
        seconds_of(half, "layer", "down_proj") / seconds_of(fp8, "layer", "down_proj");
    CHECK(gain > 1.2);
    CHECK(gain < 2);
    // Stays in bf16; where the limit of power follows the step, faster products beside leave it
    // some.
    const double head = seconds_of(fp8, "head", "lm_head") / seconds_of(half, "head", "lm_head");
    CHECK(head <= 1);
    CHECK(head > 0.9);
    CHECK(fp8.hfu <= 1);
  }
}

TEST_CASE("the products of fp8 have scales, a cast of what comes in, none of what is cast",
          "[plan]") {
  const Job job = test::llama("seq_len: 2048, precision: fp8", "hardware: {gpu: h100-sxm-80gb}\n");
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(job)));
  const StepWork work = work_of(graph, job);
  const auto op = std::find_if(work.ops.begin(), work.ops.end(), [](const OpWork& other) {
    return std::string(other.op->name) == "down_proj" && !other.backward_calls.empty();
  });
  REQUIRE(op != work.ops.end());
  REQUIRE(op->forward_calls.size() == 2);
  const auto& cast = std::get<StreamShape>(op->forward_calls[0]);
  CHECK(cast.op == StreamOp::cast);
  CHECK(cast.bytes == std::int64_t{4096} * 14336 * (2 + 2));
  const auto& forward = std::get<MatmulShape>(op->forward_calls[1]);
  CHECK(forward.operand == DType::fp8);
  CHECK(forward.scaling == OperandScaling::fixed);
  CHECK(forward.cast_included);
  REQUIRE(op->backward_calls.size() == 2);
  CHECK(std::get<MatmulShape>(op->backward_calls[0]).cast_included);
  CHECK_FALSE(std::get<MatmulShape>(op->backward_calls[1]).cast_included);
}

TEST_CASE("a GPU without fp8 has no time of it", "[plan]") {
  const Job job = test::llama("seq_len: 2048, precision: fp8", "hardware: {gpu: a100-sxm-80gb}\n");
  const Graph graph = std::get<Graph>(lower(job.model, policy_of(job)));
  const auto time = estimate_step_time(graph, job, count_flops(graph, job));
  REQUIRE(std::holds_alternative<Unavailable>(time));
  CHECK(std::get<Unavailable>(time).sentence ==
        "no fp8 rate is known for " + job.hardware.gpu.name);
}

}  // namespace
}  // namespace memest
