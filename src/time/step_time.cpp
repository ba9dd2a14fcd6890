#include "memest/time/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collectives.hpp"
#include "memest/diag/expect.hpp"
#include "step_share.hpp"

namespace memest {
namespace {

/// The parts of a step, in seconds.
struct StepParts {
  PassSeconds passes;  ///< of one micro-step
  ExposedSeconds exposed;
  double optimizer = 0;
  double clipping = 0;

  [[nodiscard]] double total(double micro_steps) const {
    return micro_steps * (passes.forward + passes.backward) + exposed.gradients + exposed.weights +
           optimizer + clipping;
  }
};

/// A job on a GPU type: what prices become a step by.
struct StepPlace {
  const StepWork& work;
  const Job& job;
  const GpuLaws& laws;
};

/// What the optimizer step of one rank reads and writes: ZeRO shards it.
CallPrice price_of_traffic(const StepPlace& place, StreamOp op, double bytes) {
  const double ranks = stage_of(place.job) == ZeroStage::none
                           ? 1.0
                           : static_cast<double>(place.job.parallelism.data);
  if (bytes == 0) return {};
  return place.laws.price(
      StreamShape{.op = op, .dtype = DType::fp32, .bytes = std::llround(bytes / ranks)});
}
CallPrice price_of_optimizer(const StepPlace& place) {
  return price_of_traffic(place, StreamOp::adamw, place.work.optimizer_bytes);
}
CallPrice price_of_clipping(const StepPlace& place) {
  return price_of_traffic(place, StreamOp::scale, place.work.clipping_bytes);
}

StepParts parts_of(const StepPlace& place, const std::vector<OpPrice>& prices, Outlook outlook) {
  const double share = step_share(place.job.hardware.gpu, outlook);
  StepParts parts;
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const OpWork& op = place.work.ops[i];
    const double forward = prices[i].forward.at(outlook) / share;
    const double backward = prices[i].backward.at(outlook) / share;
    parts.passes.forward += op.executions * forward;
    parts.passes.backward += op.executions * backward + op.recomputations * forward;
  }
  parts.exposed = exposed_seconds(place.work, place.job, parts.passes,
                                  collective_seconds(place.work, place.job, place.laws, outlook));
  parts.optimizer = price_of_optimizer(place).at(outlook) / share;
  parts.clipping = price_of_clipping(place).at(outlook) / share;
  return parts;
}

/// Of the FLOPs that are counted (torch's FlopCounterMode counts every score), those that run: a
/// causal fused attention leaves out the scores above the diagonal.
double share_that_runs(const Op& op) { return op.kind == OpKind::attention && op.causal ? 0.5 : 1; }

/// The pass that takes most of the op's time decides what binds it and how it is known.
OpTime time_of_op(const OpWork& op, const StepPlace& place, const OpPrice& price) {
  const StepWork& work = place.work;
  const double share = step_share(place.job.hardware.gpu, Outlook::expected);
  const double forward = (op.executions + op.recomputations) * price.forward.expected;
  const double backward = op.executions * price.backward.expected;
  const CallPrice& longer = forward >= backward ? price.forward : price.backward;
  const double runs = share_that_runs(*op.op);
  const auto of_all_passes = [&](double forward_amount, double backward_amount) {
    return work.micro_steps *
           ((op.executions + op.recomputations) * forward_amount + op.executions * backward_amount);
  };
  return {.block = work.graph->blocks[op.block].name,
          .op = op.op->name,
          .op_class = class_of(op.op->kind),
          .seconds = Seconds(work.micro_steps * (forward + backward) / share),
          .bound = longer.bound,
          .intensity = op.forward.bytes > 0 ? runs * op.forward.flops / op.forward.bytes : 0,
          .flops = runs * of_all_passes(op.forward.flops, op.backward.flops),
          .bytes = of_all_passes(op.forward.bytes, op.backward.bytes),
          .origin = longer.origin};
}

std::vector<OpTime> op_times(const StepPlace& place, const StepParts& parts,
                             const std::vector<OpPrice>& prices) {
  std::vector<OpTime> times;
  const auto add = [&](OpTime time) {
    if (time.seconds.value() > 0) times.push_back(std::move(time));
  };
  for (std::size_t i = 0; i < prices.size(); ++i) {
    add(time_of_op(place.work.ops[i], place, prices[i]));
  }
  const auto add_upkeep = [&](std::string_view name, double seconds, const CallPrice& price) {
    add({.block = "optimizer",
         .op = name,
         .op_class = OpClass::elementwise,
         .seconds = Seconds(seconds),
         .bound = price.bound,
         .origin = price.origin});
  };
  add_upkeep("step", parts.optimizer, price_of_optimizer(place));
  add_upkeep("clip and zero", parts.clipping, price_of_clipping(place));
  const LawOrigin link =
      collective_seconds(place.work, place.job, place.laws, Outlook::expected).origin;
  const auto add_collective = [&](std::string_view name, double seconds) {
    add({.block = "data parallel",
         .op = name,
         .op_class = OpClass::collective,
         .seconds = Seconds(seconds),
         .bound = Bound::link,
         .origin = link});
  };
  add_collective("gradients", parts.exposed.gradients);
  add_collective("weights", parts.exposed.weights);
  std::stable_sort(times.begin(), times.end(), [](const OpTime& left, const OpTime& right) {
    return left.seconds > right.seconds;
  });
  return times;
}

/// The ops' times summed by `kind_of(op)`, longest first.
template <class Kind, class KindOf>
std::vector<TimePart<Kind>> parts_by(const std::vector<OpTime>& ops, const KindOf& kind_of) {
  std::vector<TimePart<Kind>> parts;
  for (const OpTime& op : ops) {
    const Kind kind = kind_of(op);
    const auto same = std::find_if(parts.begin(), parts.end(),
                                   [&kind](const auto& part) { return part.kind == kind; });
    if (same == parts.end()) {
      parts.push_back({kind, op.seconds});
    } else {
      same->seconds += op.seconds;
    }
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& left, const auto& right) {
    return left.seconds > right.seconds;
  });
  return parts;
}

std::string_view rule_of(const GpuSpec& gpu) {
  if (has_recorded_steps(gpu)) {
    return "kernel times under sustained load over the share of recorded training steps that "
           "kernels explain; the interval holds four of five of those steps "
           "(docs/calibration.md)";
  }
  return "kernel times under sustained load over the share that kernels explain of training steps "
         "recorded on A100 and H100; no step was recorded on this kind of GPU, so the interval is "
         "unchecked (docs/calibration.md)";
}

double peak_of(const GpuSpec& gpu, DType type) {
  const auto fact = gpu.peak.find(type);
  return fact == gpu.peak.end() ? 0 : fact->second.value.value();
}

CallPrice price_of_calls(const std::vector<KernelShape>& calls, const GpuLaws& laws) {
  CallPrice total;
  double longest = -1;
  for (const KernelShape& call : calls) {
    const CallPrice price = laws.price(call);
    total.fast += price.fast;
    total.expected += price.expected;
    total.slow += price.slow;
    if (price.expected <= longest) continue;
    longest = price.expected;
    total.bound = price.bound;
    total.origin = price.origin;
  }
  return total;
}

}  // namespace

std::vector<TimePart<OpClass>> TimeEstimate::by_class() const {
  return parts_by<OpClass>(ops, [](const OpTime& op) { return op.op_class; });
}

std::vector<TimePart<LawOrigin>> TimeEstimate::by_origin() const {
  return parts_by<LawOrigin>(ops, [](const OpTime& op) { return op.origin; });
}

LawOrigin TimeEstimate::origin() const {
  return ops.empty() ? LawOrigin{} : by_origin().front().kind;
}

std::vector<OpPrice> price_ops(const StepWork& work, const GpuLaws& laws) {
  std::vector<OpPrice> prices;
  prices.reserve(work.ops.size());
  for (const OpWork& op : work.ops) {
    prices.push_back(
        {price_of_calls(op.forward_calls, laws), price_of_calls(op.backward_calls, laws)});
  }
  return prices;
}

std::variant<GpuLaws, Unavailable> laws_of(const Job& job) {
  expect(job.training.has_value(), "a job without training has no step");
  const Hardware& hardware = job.hardware;
  const GpuSpec& gpu = hardware.gpu;
  const DType compute = job.training->recipe.compute;
  if (peak_of(gpu, compute) == 0) {
    return Unavailable{"no " + std::string(name_of(compute)) + " rate is known for " + gpu.name};
  }
  if (!gpu.memory_bandwidth) {
    return Unavailable{"no memory bandwidth is known for " + gpu.name};
  }
  const bool alone = job.parallelism.data == 1;
  if (!alone && hardware.count > hardware.gpus_per_node) {
    return Unavailable{"the network between nodes is not described, so collectives over " +
                       std::to_string(hardware.count) + " GPUs have no rate"};
  }
  GpuLaws laws(gpu);
  if (!alone && !laws.know_collectives()) {
    return Unavailable{"neither a link nor a PCIe generation is known for " + gpu.name};
  }
  return laws;
}

Seconds expected_step_time(const StepWork& work, const Job& job, const GpuLaws& laws,
                           const std::vector<OpPrice>& prices) {
  return Seconds(parts_of({work, job, laws}, prices, Outlook::expected).total(work.micro_steps));
}

std::variant<TimeEstimate, Unavailable> estimate_step_time(const StepWork& work, const Job& job,
                                                           const FlopsEstimate& flops) {
  const auto known = laws_of(job);
  if (const auto* reason = std::get_if<Unavailable>(&known)) return *reason;
  const StepPlace place{work, job, std::get<GpuLaws>(known)};
  const std::vector<OpPrice> prices = price_ops(work, place.laws);
  const auto total_at = [&](Outlook outlook) {
    return parts_of(place, prices, outlook).total(work.micro_steps);
  };

  const StepParts parts = parts_of(place, prices, Outlook::expected);
  const double step = parts.total(work.micro_steps);
  const TrainingSpec& training = *job.training;
  const double peak = peak_of(job.hardware.gpu, training.recipe.compute);
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
  estimate.ops = op_times(place, parts, prices);
  estimate.rule = rule_of(job.hardware.gpu);
  return estimate;
}

std::variant<TimeEstimate, Unavailable> estimate_step_time(const Graph& graph, const Job& job,
                                                           const FlopsEstimate& flops) {
  return estimate_step_time(work_of(graph, job), job, flops);
}

}  // namespace memest
