#include "memest/time/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "time/host_step.hpp"
#include "time/recomputation.hpp"
#include "time/step_share.hpp"

namespace memest {
namespace {

/// A job on a GPU type: what prices become a step by.
struct StepPlace {
  const StepWork& work;
  const Job& job;
  const Links& links;
  const std::vector<OpPrice>& prices;
  const PricedModel& model;  ///< of these prices
};

/// One micro-step of a rank of the pipeline.
PassTimes passes_of_rank(const PricedModel& model, const Parallelism& layout, std::int64_t rank) {
  PassTimes sum;
  const StageSplit split = model.split_of(layout);
  const PipelinePlace place = place_of(layout, rank);
  for (std::int64_t chunk = 0; chunk < place.chunks; ++chunk) {
    sum += model.stage(split, stage_index(place, chunk)).passes;
  }
  return sum;
}

/// Share of the counted FLOPs that run (torch's FlopCounterMode counts every score): a
/// causal fused attention leaves out the scores above the diagonal.
double share_that_runs(const Op& op) { return op.kind == OpKind::attention && op.causal ? 0.5 : 1; }

/// How often one rank of the pipeline runs a block of the whole model in a micro-step.
struct RankRuns {
  double forward = 0;
  double checkpointed = 0;  ///< for a single recompute of each by OpWork::recomputations
};

/// How often one rank runs each block.
std::vector<RankRuns> runs_of_rank(const StepWork& work, const Job& job,
                                   const PipelinePlace& place) {
  const Graph& graph = *work.graph;
  const std::int64_t layers = graph.layers();
  const CheckpointPlan plan = checkpoint_plan_of(*job.training, layers);
  const std::vector<LayerSpan> stages = stages_of(job.stage_split(layers), place);
  const std::int64_t all = place.ranks * place.chunks;
  std::vector<RankRuns> runs(graph.blocks.size());
  std::int64_t layer = 0;
  const auto add_layer = [&](RankRuns& block) {
    for (const LayerSpan& span : stages) {
      if (layer < span.first || layer >= span.first + span.count) continue;
      block.forward += 1;
      block.checkpointed += plan.most > 0 ? over_single_stage(plan, span.count, layers) : 1;
    }
  };
  for (const BlockRun& run : graph.order) {
    const bool is_layer = graph.blocks[run.block].checkpointable;
    const bool here =
        layer == 0 ? place.rank == 0 : stage_index(place, place.chunks - 1) + 1 == all;
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      if (is_layer) {
        add_layer(runs[run.block]);
        ++layer;
      } else if (here) {
        runs[run.block].forward += 1;
      }
    }
  }
  for (const BlockRun& run : graph.teacher) {
    runs[run.block].forward += static_cast<double>(run.repeat);
  }
  return runs;
}

double recomputed_of(double recomputations, const OpWork& op, const RankRuns& runs) {
  return runs.checkpointed * recomputations / std::max(op.executions, 1.0);
}

/// The pass that takes most of the op's time decides what binds it and how it is known.
OpTime time_of_op(const OpWork& op, const StepPlace& place, const OpPrice& price,
                  const RankRuns& runs) {
  const double share = step_share(platform_of(place.job), Outlook::expected);
  const double forwards = runs.forward + recomputed_of(op.recomputations, op, runs);
  const double casts = recomputed_of(op.recasts, op, runs);
  const double forward = forwards * price.forward.expected + casts * price.casts.expected;
  const double backward = runs.forward * price.backward.expected;
  // A recomputed operation runs forward twice as often as backward.
  const CallPrice& longer = forward >= backward ? price.forward : price.backward;
  const double computed = share_that_runs(*op.op);
  const double micro_steps = place.work.micro_steps;
  const auto of_all_passes = [&](double first, double back, double cast) {
    return micro_steps * (forwards * first + runs.forward * back + casts * cast);
  };
  return {.block = place.work.graph->blocks[op.block].name,
          .op = op.op->name,
          .op_class = class_of(op.op->kind),
          .seconds = Seconds(micro_steps * (forward + backward) / share),
          .bound = longer.bound,
          .intensity = op.forward.bytes > 0 ? computed * op.forward.flops / op.forward.bytes : 0,
          .flops = computed * of_all_passes(op.forward.flops, op.backward.flops, 0),
          .bytes = of_all_passes(op.forward.bytes, op.backward.bytes, op.forward.bytes),
          .origin = longer.origin};
}

/// Collects what a step consists of, longest first.
class OpTimes {
 public:
  void add(OpTime time) {
    if (time.seconds.value() > 0) times_.push_back(std::move(time));
  }

  /// A collective of `group`; all of one name add up.
  void add_messages(const std::string& group, std::string_view name, double seconds,
                    const LawOrigin& origin) {
    const auto same = std::find_if(times_.begin(), times_.end(), [&](const OpTime& other) {
      return other.block == group && other.op == name;
    });
    if (same != times_.end()) {
      same->seconds += Seconds(seconds);
      return;
    }
    add({.block = group,
         .op = name,
         .op_class = OpClass::collective,
         .seconds = Seconds(seconds),
         .bound = Bound::link,
         .origin = origin});
  }

  std::vector<OpTime> sorted() && {
    std::stable_sort(times_.begin(), times_.end(), [](const OpTime& left, const OpTime& right) {
      return left.seconds > right.seconds;
    });
    return std::move(times_);
  }

 private:
  std::vector<OpTime> times_;
};

/// Seconds that the messages of one pass, so often, leave to wait for.
void add_waiting(OpTimes& times, const std::vector<MessageWork>& messages, const CallPrice& price,
                 double executions) {
  if (messages.empty()) return;
  const std::string group = std::string(name_of(messages.front().group)) + " parallel";
  times.add_messages(group, "messages", executions * price.expected, price.origin);
}

void add_ops(OpTimes& times, const StepPlace& place, const std::vector<RankRuns>& of_blocks) {
  for (std::size_t i = 0; i < place.prices.size(); ++i) {
    const OpWork& op = place.work.ops[i];
    const bool is_sent = op.sums == GradientSums::of_ends && place.job.parallelism.pipeline > 1;
    if (op.op->once || is_sent) continue;
    const RankRuns& runs = of_blocks[op.block];
    times.add(time_of_op(op, place, place.prices[i], runs));
    const double backward = place.work.micro_steps * runs.forward;
    const double again = place.work.micro_steps * recomputed_of(op.recomputations, op, runs);
    add_waiting(times, op.forward_messages, place.prices[i].forward_messages, backward + again);
    add_waiting(times, op.backward_messages, place.prices[i].backward_messages, backward);
  }
}

/// Adds the optimizer step's products; most are alike in how they are known.
void add_products(OpTimes& times, const StepPlace& place, const StepSeconds& step) {
  if (place.work.optimizer_products.empty()) return;
  const CallPrice price = place.links.laws().price(place.work.optimizer_products.front().shape);
  times.add({.block = "optimizer",
             .op = "products",
             .op_class = OpClass::contraction,
             .seconds = Seconds(step.products),
             .bound = price.bound,
             .intensity = step.product_bytes > 0 ? step.product_flops / step.product_bytes : 0,
             .flops = step.product_flops,
             .bytes = step.product_bytes,
             .origin = price.origin});
}

std::vector<OpTime> op_times(const StepPlace& place, const StepSeconds& step) {
  const Parallelism& parallelism = place.job.parallelism;
  OpTimes times;
  add_ops(times, place, runs_of_rank(place.work, place.job, place_of(parallelism, step.rank)));
  const auto add_update = [&](std::string_view name, StreamOp op, double seconds) {
    const bool on_host = parallelism.offload.optimizer;
    const LawOrigin origin =
        on_host ? LawOrigin{.provenance = Provenance::public_, .sibling = {}}
                : place.links.laws().price(StreamShape{.op = op, .bytes = 1 << 30}).origin;
    times.add({.block = on_host ? "optimizer on the host" : "optimizer",
               .op = name,
               .op_class = OpClass::elementwise,
               .seconds = Seconds(seconds),
               .bound = Bound::memory,
               .origin = origin});
  };
  add_update("step", StreamOp::adamw, step.optimizer);
  add_products(times, place, step);
  add_update("clipping", StreamOp::scale, step.clipping);
  add_update("sums of micro-steps", StreamOp::add, step.accumulation);
  if (step.host > 0) {
    times.add_messages("host", "transfers", step.host,
                       place.links.laws().price(TransferShape{}).origin);
  }
  times.add_messages("data parallel", "gradients", step.gradients, step.collectives);
  times.add_messages("data parallel", "weights", step.weights, step.collectives);
  times.add_messages("pipeline parallel", "sends", step.sends, step.collectives);
  times.add_messages("pipeline parallel", "tied embeddings", step.embeddings, step.collectives);
  times.add({.block = "pipeline parallel",
             .op = "bubble",
             .op_class = OpClass::waiting,
             .seconds = Seconds(step.bubble),
             .bound = Bound::other_ranks,
             .origin = {}});
  times.add({.block = "host launches",
             .op = "wait",
             .op_class = OpClass::waiting,
             .seconds = Seconds(place.work.micro_steps *
                                passes_of_rank(place.model, parallelism, step.rank).launching),
             .bound = Bound::launch,
             .origin = {.provenance = Provenance::public_, .sibling = {}}});
  // The time of a sample is the user's own word.
  times.add({.block = "data loader",
             .op = "wait",
             .op_class = OpClass::waiting,
             .seconds = Seconds(step.loading),
             .bound = Bound::loader,
             .origin = {.provenance = Provenance::unverified, .sibling = {}}});
  return std::move(times).sorted();
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

std::string_view rule_of(const StepPlatform& platform) {
  if (explains_whole_steps(platform)) {
    return "kernel times under sustained load, which are taken to explain a whole step of "
           "Megatron";
  }
  if (has_recorded_steps(platform)) {
    return "kernel times under sustained load over the share of recorded training steps that "
           "kernels explain";
  }
  return "kernel times under sustained load over the share that kernels explain of training steps "
         "recorded on A100 and H100; no step was recorded on this kind of GPU";
}

/// Times of every rank of a pipeline, over one micro-step.
std::vector<StageTime> stage_times(const PricedModel& model, const Parallelism& parallelism) {
  std::vector<StageTime> times;
  if (parallelism.pipeline == 1) return times;
  for (std::int64_t rank = 0; rank < parallelism.pipeline; ++rank) {
    const PassTimes passes = passes_of_rank(model, parallelism, rank);
    times.push_back({rank, Seconds(passes.forward), Seconds(passes.backward + passes.recompute)});
  }
  return times;
}

double peak_of(const GpuSpec& gpu, DType type) {
  const auto fact = gpu.peak.find(type);
  return fact == gpu.peak.end() ? 0 : fact->second.value.value();
}

/// The fastest that products run in: the roof of a utilisation.
DType fastest_type(const TrainingSpec& training) {
  if (training.te_linears) return row_of(training.te_linears->recipe).operand;
  const bool narrow = training.recipe.fp8_weight_copies > 0 || training.float8;
  return narrow ? DType::fp8 : training.recipe.compute;
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

std::variant<GpuLaws, Unavailable> laws_of(const Job& job) {
  expect(job.training.has_value(), "a job without training has no step");
  const Hardware& hardware = job.hardware;
  const GpuSpec& gpu = hardware.gpu;
  const Recipe& recipe = job.training->recipe;
  for (const DType type : {recipe.compute, fastest_type(*job.training)}) {
    if (peak_of(gpu, type) > 0) continue;
    return Unavailable{"no " + std::string(name_of(type)) + " rate is known for " + gpu.name};
  }
  if (!gpu.memory_bandwidth) {
    return Unavailable{"no memory bandwidth is known for " + gpu.name};
  }
  const bool alone = job.parallelism.ranks() == 1;
  if (!alone && hardware.count > hardware.linked_gpus() && !hardware.network &&
      !usual_network(gpu)) {
    return Unavailable{"no network between nodes is usual with " + gpu.name +
                       "; write hardware.network to describe it"};
  }
  GpuLaws laws(gpu);
  if (!alone && !laws.know_collectives()) {
    return Unavailable{"neither a link nor a PCIe generation is known for " + gpu.name};
  }
  if (auto reason = no_time_of_offload(job, laws)) return *std::move(reason);
  if (job.training->data && !job.training->data->sample_seconds) {
    return Unavailable{
        "how long a sample takes to load is not known; write training.data.sample_seconds, as 4 "
        "ms"};
  }
  return laws;
}

Seconds expected_step_time(const StepWork& work, const Job& job, const GpuLaws& laws,
                           const std::vector<OpPrice>& prices) {
  const Links links(laws, job.hardware);
  const PricedModel model({work, prices}, job, links);
  return expected_step_time(model, job.parallelism, std::llround(work.micro_steps));
}

std::variant<TimeEstimate, Unavailable> estimate_step_time(const StepWork& work, const Job& job,
                                                           const FlopsEstimate& flops) {
  const auto known = laws_of(job);
  if (const auto* reason = std::get_if<Unavailable>(&known)) return *reason;
  const Links links(std::get<GpuLaws>(known), job.hardware);
  const std::vector<OpPrice> prices =
      price_ops(work, links, places_of(job.parallelism, job.hardware.linked_gpus()));
  const std::int64_t micro_steps = std::llround(work.micro_steps);
  const PricedModel expected({work, prices}, job, links);
  const StepSeconds parts = expected.simulated_step(job.parallelism, micro_steps);
  const double step = parts.total();
  const TrainingSpec& training = *job.training;
  const TakenBatches taken = taken_batches(training, job.parallelism, micro_steps);
  // The schedule is run once: at the ends of the interval its stages differ as much.
  // makespan() runs the schedule action by action, closed_makespan() is a formula.
  const double over_closed =
      parts.computed() / expected.step(job.parallelism, micro_steps).computed();
  const auto step_at = [&](Outlook outlook) {
    const PricedModel model({work, prices}, job, links, outlook);
    const StepSeconds closed = model.step(job.parallelism, micro_steps);
    const ComputedStep computed{over_closed * closed.computed(), over_closed * closed.passes()};
    return Seconds(computed.all + loading_wait(training, taken, computed));
  };
  const double peak = peak_of(job.hardware.gpu, fastest_type(training));
  // Ranks of one model (tensor, pipeline, context) share its tokens: a GPU's own are a part of
  // them.
  const double tokens = static_cast<double>(training.micro_batch) *
                        static_cast<double>(training.seq_len) * work.micro_steps /
                        static_cast<double>(job.parallelism.ranks_of_a_model());
  TimeEstimate estimate;
  estimate.step = Seconds(step);
  // Margins of this job's kernels, and of whole runs whose source nobody has seen.
  const SourceMargin& published = job.source_margins.step;
  estimate.low = std::min(step_at(Outlook::fast), Seconds(step * (1 - published.low)));
  estimate.high = std::max(step_at(Outlook::slow), Seconds(step * (1 + published.high)));
  // MFU counts what the model needs, HFU what kernels compute, over the same peak.
  estimate.mfu = flops.required.as_double() / (peak * step);
  estimate.hfu = flops.computed.as_double() / (peak * step);
  estimate.tokens_per_second_per_gpu = tokens / step;
  estimate.ridge_point = peak / job.hardware.gpu.memory_bandwidth->value.value();
  estimate.ops = op_times({work, job, links, prices, expected}, parts);
  estimate.bubble = Seconds(parts.bubble);
  estimate.stages = stage_times(expected, job.parallelism);
  estimate.published = published;
  if (training.data) {
    estimate.loading = input_pipeline(training, taken, {parts.computed(), parts.passes()});
  }
  estimate.rule = rule_of(platform_of(job));
  return estimate;
}

std::variant<TimeEstimate, Unavailable> estimate_step_time(const Graph& graph, const Job& job,
                                                           const FlopsEstimate& flops) {
  return estimate_step_time(work_of(graph, job), job, flops);
}

}  // namespace memest
