#include "plan/search/replays.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "memest/graph/lower.hpp"
#include "memest/memory/flattening.hpp"
#include "memest/memory/host_memory.hpp"
#include "plan/estimate/replayed_steps.hpp"
#include "plan/estimate/stage_run.hpp"
#include "plan/layouts/refusal.hpp"

namespace memest {
namespace {

/// The ranks, with those first that may take most: one refusal is enough.
std::vector<std::int64_t> ranks_in_order(const Job& job) {
  std::vector<std::int64_t> ranks = ranks_that_may_take_most(job);
  // The others come last: a verdict of all ranks needs them too.
  for (std::int64_t rank = 0; rank < job.parallelism.pipeline; ++rank) {
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  }
  return ranks;
}

/// An allocator's own limit holds no overheads.
DeviceBytes within_limit(const DeviceBytes& bytes, const OutsideBytes& outside) {
  return {bytes.expected - outside.expected, bytes.low - outside.low, bytes.high - outside.high};
}

bool says_verdict_alone(Follow follow) {
  return follow == Follow::to_fit || follow == Follow::to_first_refusal;
}

StageRunEnd end_of(Follow follow) {
  if (follow == Follow::to_fit) return StageRunEnd::first_misfit;
  return follow == Follow::to_first_refusal ? StageRunEnd::first_refusal : StageRunEnd::worst_known;
}

}  // namespace

/// A rank on its GPU.
struct Replays::RankOnGpu {
  Verdict verdict = Verdict::fits;
  bool replayed = false;
  DeviceBytes bytes;
  std::vector<NamedBytes> largest_terms;
};

/// A rank's steps.
struct Replays::Step {
  const Graph& graph;
  const Job& job;
  const OutsideBytes& outside;
  std::int64_t rank = 0;
  Follow follow = Follow::all_ranks;
};

void Replays::write_terms(const Step& step, RankMemory& known) {
  if (known.estimate) return;
  if (beyond_the_formulas(step.job)) {
    const JobEstimate answer = estimate_job(step.job);
    const auto& memory = std::get<MemoryAnswer>(answer.memory);
    known.estimate = memory.estimate;
    known.largest_terms = memest::largest_terms(memory.ledger, memory.estimate);
    return;
  }
  const Ledger ledger = write_ledger(step.graph, step.job, step.rank);
  known.estimate = estimate_memory(ledger, ledger.bindings);
  known.largest_terms = memest::largest_terms(ledger, *known.estimate);
}

/// Unpressed the steps are the same on every GPU; else they are replayed against its own memory.
Replays::RankOnGpu Replays::replay(const Step& step, RankMemory& known) {
  const Job& job = step.job;
  const Margin& margin = margin_of(job.margins().replay, job.recompute());
  const auto taking = [&](Verdict verdict, Bytes reserved) {
    DeviceBytes bytes = device_bytes(reserved, margin, step.outside);
    bytes.low = least_taken(bytes.low, verdict, capacity_of(job.hardware), step.outside);
    return RankOnGpu{verdict, true, bytes, {}};
  };
  // A run that no limit pressed reserves the same on every GPU of the class: the peak decides
  // alone.
  const bool is_known = known.unpressed && fits_freely(*known.unpressed, job);
  if (is_known && (known.has_all || fits_by_far(*known.unpressed, job))) {
    return taking(Verdict::fits, *known.unpressed);
  }
  const bool alone = says_verdict_alone(step.follow);
  // `demand` is a lower bound of what any allocator reserves.
  if (alone && known.demand && is_hopeless(*known.demand, job)) {
    return taking(Verdict::does_not_fit, *known.demand);
  }
  if (step.follow == Follow::to_fit && known.demand && cannot_fit(*known.demand, job)) {
    return taking(Verdict::too_close_to_call, *known.demand);
  }
  const StageRunEnd end = end_of(step.follow);
  const std::optional<StageRun> run = run_stage(step.graph, job, step.rank, end);
  if (!run) return {};
  known.demand = run->demand;
  const bool refused = run->verdict == Verdict::does_not_fit;
  const bool ends_early = end == StageRunEnd::first_misfit && run->verdict != Verdict::fits;
  if (!ends_early && (!refused || end == StageRunEnd::worst_known)) {
    known.unpressed = run->most_unpressed;
    known.has_all = !refused && !fits_by_far(run->most_unpressed, job);
  }
  return taking(run->verdict, run->reserved);
}

Replays::RankOnGpu Replays::follow_rank(const Step& step, const RankKey& key) {
  Variants& variants = *ranks_.at(key, [] { return std::make_unique<Variants>(); });
  const std::scoped_lock lock(variants.mutex);
  auto same = std::ranges::find_if(variants.distinct, [&](const auto& known) {
    // GPUs of one capability may run different kernels (by their multiprocessors), so graphs tell
    // them apart.
    return known.first.order == step.graph.order && known.first.blocks == step.graph.blocks;
  });
  if (same == variants.distinct.end()) {
    variants.distinct.emplace_back(step.graph, RankMemory());
    same = std::prev(variants.distinct.end());
  }
  RankMemory& known = same->second;
  RankOnGpu here;
  if (known.has_replay) here = replay(step, known);
  known.has_replay = here.replayed;
  if (!here.replayed && beyond_the_formulas(step.job)) return here;
  if (!here.replayed || !says_verdict_alone(step.follow)) {
    write_terms(step, known);
    here.largest_terms = known.largest_terms;
  }
  if (here.replayed) return here;
  const MemoryEstimate& estimate = *known.estimate;
  here.verdict = judge(estimate, capacity_of(step.job.hardware));
  here.bytes = {estimate.device(), estimate.low(), estimate.high()};
  return here;
}

std::optional<CandidateMemory> Replays::of(const Job& job, Follow follow,
                                           const std::string& change) {
  const Capacity capacity = capacity_of(job.hardware);
  const OutsideBytes outside = outside_bytes(job);
  RankKey key{.device = device_class_of(job.hardware.gpu),
              .layout = job.parallelism,
              .micro_batch = job.training->micro_batch,
              .gradient_accumulation = job.training->gradient_accumulation,
              .recompute = text_of(job.training->recompute),
              .change = change};
  CandidateMemory memory;
  const std::vector<std::int64_t> ranks = ranks_in_order(job);
  const std::size_t of_most = ranks_that_may_take_most(job).size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool refused = memory.verdict == Verdict::does_not_fit;
    if (refused && says_verdict_alone(follow)) break;
    if (follow == Follow::to_fit && memory.verdict != Verdict::fits) break;
    if (refused && follow == Follow::ranks_of_most && i >= of_most) break;
    const auto graph = lower(job.model, policy_of(job, ranks[i]));
    if (!std::holds_alternative<Graph>(graph)) return std::nullopt;
    if (const auto host = host_memory_of(std::get<Graph>(graph), job); host && !memory.host) {
      memory.host = host_need_of(host->taken(), job, job.hardware);
      memory.verdict = worse_of(memory.verdict, memory.host->verdict());
    }
    key.rank = ranks[i];
    key.flattens_on_host = flattens_on_host(std::get<Graph>(graph), job);
    RankOnGpu here = follow_rank({.graph = std::get<Graph>(graph),
                                  .job = job,
                                  .outside = outside,
                                  .rank = ranks[i],
                                  .follow = follow},
                                 key);
    if (!here.replayed && beyond_the_formulas(job)) return std::nullopt;
    if (capacity.allocator_limit) here.bytes = within_limit(here.bytes, outside);
    memory.replayed = memory.replayed && here.replayed;
    memory.verdict = worse_of(memory.verdict, here.verdict);
    if (here.bytes.expected <= memory.device) continue;
    memory.device = here.bytes.expected;
    memory.low = here.bytes.low;
    memory.high = here.bytes.high;
    memory.largest_terms = std::move(here.largest_terms);
  }
  return memory;
}

}  // namespace memest
