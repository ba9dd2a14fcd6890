#include "memest/time/step_time.hpp"

#include <algorithm>
#include <array>

#include "collectives.hpp"
#include "kernel_time.hpp"
#include "memest/diag/expect.hpp"
#include "rates.hpp"

namespace memest {
namespace {

/// The parts of a step, in seconds.
struct StepParts {
  PassSeconds passes;  ///< of one micro-step
  ExposedSeconds exposed;
  double optimizer = 0;

  [[nodiscard]] double total(double micro_steps) const {
    return micro_steps * (passes.forward + passes.backward) + exposed.gradients + exposed.weights +
           optimizer;
  }
};

/// ZeRO shards the optimizer step over the ranks.
double optimizer_seconds(const StepWork& work, const Job& job, const Rates& rates) {
  const double ranks =
      stage_of(job) == ZeroStage::none ? 1.0 : static_cast<double>(job.parallelism.data);
  return (work.optimizer_bytes + work.clipping_bytes) / ranks / rates.stream;
}

StepParts parts_of(const StepWork& work, const Job& job, const Rates& rates) {
  StepParts parts;
  for (const OpWork& op : work.ops) {
    const double forward = kernel_time(op, Pass::forward, work.seq_len, rates).seconds;
    const double backward = kernel_time(op, Pass::backward, work.seq_len, rates).seconds;
    parts.passes.forward += op.executions * forward;
    parts.passes.backward += op.executions * backward + op.recomputations * forward;
  }
  parts.exposed = exposed_seconds(work, job, parts.passes, rates.link);
  parts.optimizer = optimizer_seconds(work, job, rates);
  return parts;
}

std::variant<Rates, Unavailable> rates_of_job(const Job& job, Outlook outlook) {
  expect(job.training.has_value(), "a job without training has no step");
  return rates_of(job.hardware, job.training->recipe.compute, job.parallelism.data, outlook);
}

/// The pass that takes most of the op's time decides what binds it.
OpTime time_of_op(const OpWork& op, const StepWork& work, const Rates& rates) {
  const KernelTime forward = kernel_time(op, Pass::forward, work.seq_len, rates);
  const KernelTime backward = kernel_time(op, Pass::backward, work.seq_len, rates);
  const double forward_total = (op.executions + op.recomputations) * forward.seconds;
  const double backward_total = op.executions * backward.seconds;
  const auto of_all_passes = [&](double forward_amount, double backward_amount) {
    return work.micro_steps *
           ((op.executions + op.recomputations) * forward_amount + op.executions * backward_amount);
  };
  return {.block = work.graph->blocks[op.block].name,
          .op = op.op->name,
          .op_class = class_of(op.op->kind),
          .seconds = Seconds(work.micro_steps * (forward_total + backward_total)),
          .bound = forward_total >= backward_total ? forward.bound : backward.bound,
          .intensity = op.forward.bytes > 0 ? op.forward.flops / op.forward.bytes : 0,
          .flops = of_all_passes(op.forward.flops, op.backward.flops),
          .bytes = of_all_passes(op.forward.bytes, op.backward.bytes)};
}

/// How the times of contractions are known, the bulk of a step: by the laws of a profile, where it
/// has them for one of its kind.
Provenance provenance_of(const StepWork& work, const Rates& rates) {
  for (const OpWork& op : work.ops) {
    if (rates.laws.seconds(op.forward_calls)) return rates.laws.provenance();
  }
  return Provenance::datasheet;
}

std::vector<OpTime> op_times(const StepWork& work, const StepParts& parts, const Rates& rates) {
  std::vector<OpTime> times;
  for (const OpWork& op : work.ops) {
    OpTime time = time_of_op(op, work, rates);
    if (time.seconds.value() > 0) times.push_back(std::move(time));
  }
  const auto add = [&](const char* block, std::string_view name, OpClass op_class, double seconds,
                       Bound bound) {
    if (seconds == 0) return;
    times.push_back({.block = block,
                     .op = name,
                     .op_class = op_class,
                     .seconds = Seconds(seconds),
                     .bound = bound,
                     .intensity = 0,
                     .flops = 0,
                     .bytes = 0});
  };
  add("optimizer", "step", OpClass::elementwise, parts.optimizer, Bound::memory);
  add("data parallel", "gradients", OpClass::collective, parts.exposed.gradients, Bound::link);
  add("data parallel", "weights", OpClass::collective, parts.exposed.weights, Bound::link);
  std::stable_sort(times.begin(), times.end(), [](const OpTime& left, const OpTime& right) {
    return left.seconds > right.seconds;
  });
  return times;
}

}  // namespace

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::memory:
      return "memory";
    case Bound::link:
      return "link";
    case Bound::launch:
      return "launch";
  }
  unreachable("every bound has a name");
}

std::variant<Seconds, Unavailable> expected_step_time(const StepWork& work, const Job& job) {
  const auto rates = rates_of_job(job, Outlook::expected);
  if (const auto* reason = std::get_if<Unavailable>(&rates)) return *reason;
  return Seconds(parts_of(work, job, std::get<Rates>(rates)).total(work.micro_steps));
}

std::variant<TimeEstimate, Unavailable> estimate_step_time(const StepWork& work, const Job& job,
                                                           const FlopsEstimate& flops) {
  const auto expected = rates_of_job(job, Outlook::expected);
  if (const auto* reason = std::get_if<Unavailable>(&expected)) return *reason;
  const Rates& rates = std::get<Rates>(expected);
  const auto total_at = [&](Outlook outlook) {
    return parts_of(work, job, std::get<Rates>(rates_of_job(job, outlook))).total(work.micro_steps);
  };

  const StepParts parts = parts_of(work, job, rates);
  const double step = parts.total(work.micro_steps);
  const TrainingSpec& training = *job.training;
  const double peak = rates.of(training.recipe.compute).peak;
  const double tokens = static_cast<double>(training.micro_batch) *
                        static_cast<double>(training.seq_len) * work.micro_steps;

  TimeEstimate estimate;
  estimate.step = Seconds(step);
  estimate.low = Seconds(total_at(Outlook::fast));
  estimate.high = Seconds(total_at(Outlook::slow));
  estimate.mfu = flops.model.as_double() / (peak * step);
  estimate.hfu = flops.executed().as_double() / (peak * step);
  estimate.tokens_per_second_per_gpu = tokens / step;
  estimate.ridge_point = peak / job.hardware.gpu.memory_bandwidth->value.value();
  estimate.ops = op_times(work, parts, rates);
  estimate.provenance = provenance_of(work, rates);
  estimate.rule = estimate.provenance == Provenance::datasheet ? efficiency_rule(job.hardware.gpu)
                                                               : law_rule(job.hardware.gpu);
  return estimate;
}

std::variant<TimeEstimate, Unavailable> estimate_step_time(const Graph& graph, const Job& job,
                                                           const FlopsEstimate& flops) {
  return estimate_step_time(work_of(graph, job), job, flops);
}

}  // namespace memest
