#include "memest/plan/estimate.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/graph/lower.hpp"
#include "memest/memory/alive_ledger.hpp"
#include "memest/memory/data_ranks.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/time/work.hpp"
#include "plan/estimate/high_moments.hpp"
#include "plan/estimate/replayed_steps.hpp"
#include "plan/estimate/stage_run.hpp"
#include "plan/estimate/whole_model.hpp"

namespace memest {
namespace {

/// Everything unavailable for one reason.
JobEstimate without_step(const Job& job, const Unavailable& reason) {
  return {.parameters = count_parameters(job),
          .memory = reason,
          .other_ranks = {},
          .flops = reason,
          .time = reason,
          .inference_time = {},
          .cost = reason,
          .assumptions = {}};
}

/// Every rank of a pipeline has its own stages and its own micro-steps in flight.
RankClass ranks_of(const Job& job, std::int64_t rank) {
  const std::int64_t stages = job.parallelism.pipeline;
  RankClass ranks{"", rank, job.hardware.count / stages, {}};
  if (stages == 1) return ranks;
  const std::string number = std::to_string(rank + 1) + " of " + std::to_string(stages);
  if (is_v_shaped(job.parallelism.schedule)) {
    ranks.name = rank == 0 ? "first and last stage" : "rank " + number;
    return ranks;
  }
  ranks.name = rank == 0 ? "first stage" : rank + 1 == stages ? "last stage" : "stage " + number;
  return ranks;
}

/// Which data rank is asked for; absent: the worst.
using AskedRank = std::optional<std::int64_t>;

/// The steps of the data rank that is asked for, and which of how many it is.
void replay_rank(const Graph& graph, const Job& job, AskedRank asked, MemoryAnswer& answer) {
  RankClass& ranks = answer.ranks;
  const std::int64_t count = data_ranks_of(job);
  if (asked) {
    ranks.data = {std::min(*asked, count - 1), 1, count};
  } else if (count > 1) {
    ranks.data = {0, 1, count};
    std::optional<StageRun> run = run_stage(graph, job, ranks.rank, StageRunEnd::worst_known);
    if (run) ranks.data = run->ranks;
    // The worst rank's steps were replayed to find it: they are the answer's.
    if (run && run->worst_steps) {
      auto& [timeline, replay] = *run->worst_steps;
      answer.replay = replayed_steps_of({graph, std::move(timeline), std::move(replay)}, job);
      return;
    }
  }
  answer.replay = replay_job(graph, job, {ranks.rank, ranks.data.worst});
}

/// The highest moments of the closed form.
std::vector<HighMoment> moments_of(const Ledger& ledger, const MemoryEstimate& estimate) {
  std::vector<HighMoment> moments;
  for (const InstantTotal& instant : estimate.instants) {
    moments.push_back({ledger.instants[instant.index].name, instant.total});
  }
  // The peak leads also where another moment is as high.
  std::swap(moments.front(), moments[estimate.peak]);
  std::stable_sort(moments.begin() + 1, moments.end(),
                   [](const HighMoment& left, const HighMoment& right) {
                     return left.allocated > right.allocated;
                   });
  return moments;
}

/// Writes the closed form's answer for the rank; where its steps are not replayed, the only answer.
void answer_in_formulas(const Job& job, Ledger formulas, MemoryAnswer& answer) {
  answer.ledger = std::move(formulas);
  answer.estimate = estimate_memory(answer.ledger, answer.ledger.bindings);
  answer.simple = simple_view(answer.ledger, answer.capacity);
  // A ledger is written in any case, for its names; its sum is an answer only where the formulas
  // hold.
  if (!beyond_the_formulas(job)) answer.closed_form = answer.estimate.allocated();
}

/// Replaces them by the tensors alive at the replay's peak, and by its highest moments.
void answer_in_events(const Job& job, const ReplayedSteps& steps, MemoryAnswer& answer) {
  const Ledger formulas = std::move(answer.ledger);
  const StepReplay& replay = steps.unpressed();
  answer.ledger = alive_ledger({steps.step.graph, job, steps.step.timeline, replay.peak, formulas});
  answer.estimate = estimate_memory(answer.ledger, answer.ledger.bindings);
  answer.moments = high_moments(steps.step, replay);
}

MemoryAnswer answer_memory(const Graph& graph, const Job& job, std::int64_t rank, AskedRank asked) {
  MemoryAnswer answer;
  answer.ranks = ranks_of(job, rank);
  answer.capacity = capacity_of(job.hardware);
  answer_in_formulas(job, write_ledger(graph, job, rank), answer);
  replay_rank(graph, job, asked, answer);
  if (const ReplayedSteps* steps = answer.replayed()) {
    answer_in_events(job, *steps, answer);
    answer.verdict = judge_replay(*steps, job);
    answer.replay_margin = margin_of(job.margins().replay, job.recompute());
  } else {
    answer.moments = moments_of(answer.ledger, answer.estimate);
    answer.verdict = judge(answer.estimate, answer.capacity);
  }
  answer.published = job.source_margins;
  answer.host = host_memory_of(graph, job);
  if (answer.host) answer.host_need = host_need_of(answer.host->taken(), job, job.hardware);
  answer.saved = Unavailable{"without gradients nothing is saved for a backward pass"};
  if (job.training && job.training->saves_on_host()) {
    answer.saved = Unavailable{"what autograd saves waits on the host, of which 'host' has it"};
  } else if (job.training) {
    answer.saved = saved_bytes_of(graph, *job.training);
    answer.saved_by_layer = saved_bytes_by_layer(graph, *job.training);
  }
  return answer;
}

/// The first answer becomes the one that takes most; a rank that does not fit decides before all
/// others.
void sort_by_memory(MemoryAnswer& first, std::vector<MemoryAnswer>& others) {
  others.insert(others.begin(), std::move(first));
  std::stable_sort(others.begin(), others.end(),
                   [](const MemoryAnswer& left, const MemoryAnswer& right) {
                     // A rank that takes less may be the one that does not fit: its segments are
                     // cut up.
                     if (left.verdict == right.verdict) return left.device() > right.device();
                     return worse_of(left.verdict, right.verdict) == left.verdict;
                   });
  first = std::move(others.front());
  others.erase(others.begin());
}

std::variant<CostEstimate, Unavailable> answer_cost(const Job& job, const JobEstimate& answer) {
  if (!job.hardware.price) {
    return Unavailable{"no price is known for " + job.hardware.gpu.name +
                       "; write hardware.price to give one"};
  }
  const DollarsPerHour price = *job.hardware.price;
  if (answer.inference_time) return cost_of(job, price, answer.inference_time->whole);
  if (const auto* reason = std::get_if<Unavailable>(&answer.time)) return *reason;
  return cost_of(job, price, std::get<TimeEstimate>(answer.time).step);
}

/// FLOPs of the pipeline's rank that runs the most.
FlopsEstimate flops_of_busiest(const std::vector<Graph>& ranks, const Job& job) {
  FlopsEstimate most = count_flops(ranks.front(), job);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const FlopsEstimate flops = count_flops(ranks[rank], job);
    if (flops.executed() > most.executed()) most = flops;
  }
  return most;
}

void answer_time(const std::vector<Graph>& ranks, const Job& job, JobEstimate& answer) {
  if (job.inference) {
    auto time = estimate_inference_time(ranks.front(), job);
    if (auto* reason = std::get_if<Unavailable>(&time)) {
      answer.time = std::move(*reason);
      return;
    }
    answer.inference_time = std::get<InferenceTime>(std::move(time));
    answer.time = Unavailable{"a forward without gradients has no training step"};
    return;
  }
  // A pipeline is timed from the whole model, whose layers are then cut into stages.
  answer.time = ranks.size() == 1 ? time_of_step(ranks.front(), job) : time_of_step(job);
}

/// The graph of each of the pipeline's ranks, or why one has none.
std::variant<std::vector<Graph>, Unavailable> lower_ranks(const Job& job) {
  std::vector<Graph> ranks;
  for (std::int64_t rank = 0; rank < job.parallelism.pipeline; ++rank) {
    auto lowered = lower(job.model, policy_of(job, rank));
    if (auto* reason = std::get_if<Unavailable>(&lowered)) return std::move(*reason);
    ranks.push_back(std::get<Graph>(std::move(lowered)));
  }
  return ranks;
}

/// The answer leaves some of a data loader out, and says so.
void add_loading_assumptions(const Job& job, std::vector<std::string>& assumptions) {
  if (!job.training || !job.training->data) return;
  const DataLoading& loading = *job.training->data;
  if (!loading.sample_bytes) {
    assumptions.emplace_back(
        "the data loader's batches are not counted in the host's memory: "
        "training.data.sample_bytes is not written");
  }
  if (loading.workers > 0) {
    assumptions.emplace_back(
        "what a data loader's worker takes beside its batches (Python, the program's imports, its "
        "copies of what it writes) is not counted");
  }
}

JobEstimate estimate(const Job& job, AskedRank asked) {
  if (job.forward() == nullptr) return without_step(job, {kRunsNothing});
  if (std::holds_alternative<BudgetRecompute>(job.recompute())) {
    return without_step(job, {kBudgetOpen});
  }
  const auto lowered = lower_ranks(job);
  if (const auto* reason = std::get_if<Unavailable>(&lowered)) return without_step(job, *reason);
  const auto& ranks = std::get<std::vector<Graph>>(lowered);

  JobEstimate answer;
  answer.parameters = count_parameters(job);
  answer.parameters.buffers = buffer_bytes(ranks.front().parameters);
  MemoryAnswer memory = answer_memory(ranks.front(), job, 0, asked);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    answer.other_ranks.push_back(
        answer_memory(ranks[rank], job, static_cast<std::int64_t>(rank), asked));
  }
  sort_by_memory(memory, answer.other_ranks);
  auto reason = beyond_the_closed_form(job);
  if (reason && memory.replayed() == nullptr) {
    answer.memory = *std::move(reason);
  } else {
    answer.memory = std::move(memory);
  }
  answer.flops = flops_of_busiest(ranks, job);
  answer_time(ranks, job, answer);
  answer.cost = answer_cost(job, answer);
  add_loading_assumptions(job, answer.assumptions);
  if (!job.hardware.gpu.compute_capability()) {
    answer.assumptions.push_back(job.hardware.gpu.name +
                                 " has no CUDA compute capability: attention is taken to run and "
                                 "keep what PyTorch's flash attention does on 8.0");
  }
  return answer;
}

}  // namespace

JobEstimate estimate_job(const Job& job) { return estimate(job, std::nullopt); }

JobEstimate estimate_job(const Job& job, std::int64_t data_rank) {
  return estimate(job, data_rank);
}

}  // namespace memest
