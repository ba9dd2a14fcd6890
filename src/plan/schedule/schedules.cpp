// The schedules of a job, each played, within a budget.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/schedule.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/time/kernel_law.hpp"
#include "memest/time/priced_model.hpp"
#include "plan/estimate/replayed_steps.hpp"
#include "plan/estimate/whole_model.hpp"

namespace memest {
namespace {

/// Why the job has no schedules; empty where it has.
std::optional<Unavailable> refusal_of(const Job& job) {
  if (!job.training)
    return Unavailable{"a schedule is of a training's step, and the spec has none"};
  const bool whole = shards_by<Unsharded>(job) || shards_by<ReplicasOfDdp>(job);
  const Parallelism& parallelism = job.parallelism;
  if (!whole || parallelism.pipeline > 1 || parallelism.context > 1 || parallelism.tensor > 1 ||
      parallelism.offload.any()) {
    return Unavailable{
        "schedules of a model that is cut, sharded or offloaded are not available: each GPU has "
        "the whole model here"};
  }
  if (job.training->teacher != nullptr) {
    return Unavailable{"schedules beside a second model are not available yet"};
  }
  if (job.training->implementation.compile != CompileScope::off) {
    return Unavailable{"schedules of compiled layers are not available: their regions decide"};
  }
  if (row_of(job.training->implementation.framework).is_formula) {
    return Unavailable{"a schedule is of operations that run, and a formula has none"};
  }
  return std::nullopt;
}

/// Seconds of operations and copies.
class StepPricing {
 public:
  StepPricing(const Graph& graph, const Job& job, const GpuLaws& laws)
      : job_(job), laws_(laws), work_(work_of(graph, job)), prices_(price_ops(work_, laws)) {
    const Links links(laws, job.hardware);
    const PricedModel model({work_, prices_}, job, links);
    const StepSeconds seconds = model.step(job.parallelism, 1);
    double kernels = 0;
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      const OpWork& op = work_.ops[i];
      // Sums of gradients are no operations of a schedule: they are spread over all.
      if (op.sums != GradientSums::none) break;
      if (first_of_block_.size() <= op.block) first_of_block_.push_back(i);
      kernels += op.executions * (prices_[i].forward.expected + prices_[i].backward.expected);
    }
    // A step takes longer than its kernels, each pass by as much.
    over_kernels_ = kernels > 0 ? (seconds.forward + seconds.backward) / kernels : 1;
  }

  void price(ScheduledStep& step) const {
    for (const StepOp& op : step.step.ops) {
      const OpPrice& price = prices_[first_of_block_[op.block] + op.op];
      step.forward.push_back(over_kernels_ * price.forward.expected);
      step.backward.push_back(over_kernels_ * price.backward.expected);
    }
    for (const StepTensor& tensor : step.step.tensors) {
      step.out.push_back(seconds_of_copy(TransferPath::device_to_host_pinned, tensor.bytes));
      step.in.push_back(seconds_of_copy(TransferPath::host_to_device_pinned, tensor.bytes));
      if (const auto seconds = seconds_of_touch(tensor.bytes)) step.touched.push_back(*seconds);
    }
  }

  /// To the host and back; the law of touched pages is known where they come on demand.
  [[nodiscard]] Seconds seconds_of_paging(std::int64_t bytes, Paging paging) const {
    if (bytes == 0) return Seconds(0);
    const double out = seconds_of_copy(TransferPath::device_to_host_pinned, bytes);
    const double in = paging == Paging::on_demand
                          ? seconds_of_touch(bytes).value()
                          : seconds_of_copy(TransferPath::host_to_device_pinned, bytes);
    return Seconds(out + in);
  }

 private:
  [[nodiscard]] double seconds_of_copy(TransferPath path, std::int64_t bytes) const {
    return laws_.price(TransferShape{path, bytes}).expected;
  }
  [[nodiscard]] std::optional<double> seconds_of_touch(std::int64_t bytes) const {
    const GpuSpec& gpu = job_.hardware.gpu;
    if (!gpu.profile) return std::nullopt;
    const TransferShape shape{TransferPath::managed_migration, bytes};
    const auto seconds = predict(*gpu.profile, gpu, shape, Load::sustained);
    return seconds ? std::optional(seconds->value()) : std::nullopt;
  }

  const Job& job_;
  const GpuLaws& laws_;
  StepWork work_;
  std::vector<OpPrice> prices_;
  std::vector<std::size_t> first_of_block_;
  double over_kernels_ = 1;
};

/// The job with another recompute, and its peak in PyTorch; none where it cannot be had.
std::optional<Bytes> replayed_peak(Job job, const Recompute& recompute) {
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  if (framework.checkpoints != CheckpointRule::torch) return std::nullopt;
  // Casts of shared weights that a checkpoint makes again were not recorded.
  if (job.model.shared_layers && job.training->recipe.autocast) return std::nullopt;
  job.training->recompute = recompute;
  const auto graph = lower(job.model, policy_of(job));
  if (std::holds_alternative<Unavailable>(graph)) return std::nullopt;
  const auto timeline = write_timeline(std::get<Graph>(graph), job);
  if (std::holds_alternative<Unavailable>(timeline)) return std::nullopt;
  return replay_unpressed(std::get<Timeline>(timeline), job).statistics.allocated.peak;
}

class ScheduleRows {
 public:
  ScheduleRows(const Job& job, const TimeEstimate& time, const StepPricing& pricing,
               ScheduleAnswer& answer)
      : job_(job),
        pricing_(pricing),
        micro_steps_(static_cast<double>(job.training->gradient_accumulation)),
        answer_(answer),
        taken_(taken_batches(*job.training, job.parallelism, job.training->gradient_accumulation)),
        computed_(time.step.value() - (time.loading ? time.loading->wait.value() : 0)) {}

  void add_all() {
    const ScheduledStep& step = answer_.scheduled;
    const std::int64_t budget = answer_.budget.value();
    const std::vector<ChainStage> chain = chain_of(step.step);
    answer_.stages = chain.size();
    add("keep all", keep_all(step));
    add_groups(chain);
    add("keep nothing", keep_nothing(step, chain));
    add("recompute cheap operations", by_fates(step, recompute_cheap(step), budget));
    if (auto actions = least_time(step, chain, budget)) {
      add("recompute, least time in the budget", *std::move(actions));
    }
    if (step.out.empty()) return;
    add("swap long edges", by_fates(step, swap_long_edges(step, budget), budget));
    add("swap contractions' inputs", swap_contraction_inputs(step, budget));
    add("swap around the peak", by_fates(step, swap_around_peak(step, budget), budget));
    add("swap contractions, recompute the rest",
        by_fates(step, swap_contractions_recompute_rest(step), budget));
    add("keep, swap or recompute", by_fates(step, least_cost_fates(step, budget), budget));
    add_unified_memory();
  }

 private:
  void add_groups(const std::vector<ChainStage>& chain) {
    const ScheduledStep& step = answer_.scheduled;
    const std::size_t layers = answer_.layers;
    if (layers == 0) return;
    add("recompute every layer", checkpoint_groups(step, chain, 1), FullRecompute{});
    if (layers < 3) return;
    std::size_t groups = 1;  // ⌈√L⌉
    while (groups * groups < layers) ++groups;
    const std::size_t together = (layers + groups - 1) / groups;
    const std::string name = "recompute in groups of " + std::to_string(together);
    add(name, checkpoint_groups(step, chain, together), SqrtRecompute{});
    add(name + ", memory-centric",
        checkpoint_groups(step, chain, together, Retention::memory_centric));
    add(name + ", cost-aware", checkpoint_groups(step, chain, together, Retention::cost_aware));
  }

  void add_unified_memory() {
    ScheduledStep touched = answer_.scheduled;
    if (touched.touched.empty()) return;
    touched.in = touched.touched;
    const std::int64_t over = answer_.rows.front().played.peak - answer_.budget.value();
    const std::int64_t all = answer_.states.value();
    const std::int64_t pressed = std::clamp<std::int64_t>(over, 0, all);
    add_paged("unified memory, on demand", touched, {Paging::on_demand, pressed});
    add_paged("unified memory, prefetched", answer_.scheduled, {Paging::prefetched, pressed});
    // cudaMemAdviseSetPreferredLocation: behind the optimizer they are on the host in any case.
    add_paged("unified memory, states at home on the host", answer_.scheduled,
              {Paging::prefetched, all});
  }

  /// The optimizer's states are used once a step: their pages are the least recently used, leave
  /// before any activation's and are back for the optimizer.
  struct Pages {
    Paging paging = Paging::on_demand;
    std::int64_t states = 0;  ///< bytes of them that leave
  };
  void add_paged(std::string name, const ScheduledStep& step, const Pages& pages) {
    const auto [paging, states] = pages;
    const std::int64_t budget = answer_.budget.value();
    add_played(std::move(name), step, page_under_pressure(step, budget + states, paging));
    ScheduleRow& row = answer_.rows.back();
    row.paged_states = Bytes(states);
    row.peak = Bytes(std::max(row.played.peak - states, answer_.scheduled.step.outside));
    row.fits = row.peak <= answer_.budget;
    row.step += pricing_.seconds_of_paging(states, paging);
  }

  void add(std::string name, std::vector<Action> actions,
           const std::optional<Recompute>& in_pytorch = std::nullopt) {
    add_played(std::move(name), answer_.scheduled, std::move(actions));
    if (in_pytorch) answer_.rows.back().replayed = replayed_peak(job_, *in_pytorch);
  }

  void add_played(std::string name, const ScheduledStep& step, std::vector<Action> actions) {
    const auto played = play(step, actions);
    expect(std::holds_alternative<Played>(played), "a schedule of memest's own can be played");
    ScheduleRow row;
    row.name = std::move(name);
    row.played = std::get<Played>(played);
    row.peak = Bytes(std::max(row.played.peak, answer_.scheduled.step.outside));
    if (answer_.rows.empty()) kept_seconds_ = row.played.seconds;
    row.step = step_of(row.played);
    row.fits = row.peak <= answer_.budget;
    row.actions = std::move(actions);
    answer_.rows.push_back(std::move(row));
  }

  /// A longer step waits less for its batches.
  [[nodiscard]] Seconds step_of(const Played& played) const {
    const double passes = micro_steps_ * played.seconds;
    const double computed = computed_ + passes - micro_steps_ * kept_seconds_;
    return Seconds(computed + loading_wait(*job_.training, taken_, {computed, passes}));
  }

  const Job& job_;
  const StepPricing& pricing_;
  double micro_steps_;
  ScheduleAnswer& answer_;
  TakenBatches taken_;
  double computed_;  ///< seconds of the step that keeps all, without waiting for batches
  double kept_seconds_ = 0;
};

std::size_t layers_of(const StepTensors& step) {
  std::size_t layers = 0;
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    const StepOp& op = step.ops[i];
    const bool begins = i == 0 || step.ops[i - 1].instance != op.instance;
    if (begins && op.in_layer) ++layers;
  }
  return layers;
}

/// The optimizer's states, which stay from step to step.
Bytes states_of(const Timeline& timeline) {
  std::vector<bool> freed(timeline.storages.size(), false);
  for (const Event& event : timeline.events) {
    if (event.kind == EventKind::free) freed[event.storage] = true;
  }
  Bytes states;
  for (StorageId i = 0; i < timeline.storages.size(); ++i) {
    const Storage& storage = timeline.storages[i];
    const bool kept = storage.label.holding == Holding::optimizer_states && !freed[i];
    if (kept) states += Bytes(storage.bytes);
  }
  return states;
}

}  // namespace

std::variant<ScheduleAnswer, Unavailable> schedules_of(const Job& written) {
  if (auto refusal = refusal_of(written)) return *std::move(refusal);
  Job job = written;
  job.training->recompute = NoRecompute{};
  job.training->offload_activations.reset();
  job.training->offloaded_layers = 0;
  auto lowered = lower(job.model, policy_of(job));
  if (auto* reason = std::get_if<Unavailable>(&lowered)) return std::move(*reason);
  ScheduleAnswer answer;
  answer.graph = std::get<Graph>(std::move(lowered));
  if (is_beyond_replay(answer.graph)) return Unavailable{kBeyondReplay};
  const auto written_timeline = write_timeline(answer.graph, job);
  if (const auto* reason = std::get_if<Unavailable>(&written_timeline)) return *reason;
  const auto& timeline = std::get<Timeline>(written_timeline);
  const StepReplay replay = replay_unpressed(timeline, job);
  if (replay.out_of_memory) return Unavailable{kBeyondReplay};
  const auto time = time_of_step(answer.graph, job);
  if (const auto* reason = std::get_if<Unavailable>(&time)) return *reason;
  const auto laws = laws_of(job);
  if (const auto* reason = std::get_if<Unavailable>(&laws)) return *reason;
  if (!std::get<GpuLaws>(laws).know_transfers()) {
    return Unavailable{"no link to the host is known for " + job.hardware.gpu.name};
  }
  answer.step = std::get<TimeEstimate>(time).step;
  answer.budget = room_of(replay_device_of(job));
  answer.scheduled.step = step_tensors_of(answer.graph, timeline, replay);
  answer.layers = layers_of(answer.scheduled.step);
  answer.states = states_of(timeline);
  const StepPricing pricing(answer.graph, job, std::get<GpuLaws>(laws));
  pricing.price(answer.scheduled);
  ScheduleRows(job, std::get<TimeEstimate>(time), pricing, answer).add_all();
  return answer;
}

}  // namespace memest
