#include "describe.hpp"

#include <algorithm>

#include "memest/graph/lower.hpp"
#include "refusal.hpp"
#include "replayed_steps.hpp"
#include "whole_model.hpp"

namespace memest {
namespace {

const Price* price_of(const PlanRequest& request, const GpuSpec& gpu) {
  const Price* chosen = nullptr;
  for (const Price& price : request.prices) {
    if (price.gpu != gpu.slug) continue;
    if (chosen == nullptr || (price.is_default && !chosen->is_default)) chosen = &price;
  }
  return chosen;
}

std::variant<CostEstimate, Unavailable> cost_of(
    const Job& job, const std::variant<TimeEstimate, Unavailable>& time) {
  if (!job.hardware.price) {
    return Unavailable{"no price is known for " + job.hardware.gpu.name};
  }
  if (const auto* reason = std::get_if<Unavailable>(&time)) return *reason;
  return cost_of(job, *job.hardware.price, std::get<TimeEstimate>(time).step);
}

/// What is within an allocator's own limit: overheads are not taken off it.
Bytes within_limit(Bytes bytes, Bytes outside, const Capacity& capacity) {
  return capacity.allocator_limit ? bytes - outside : bytes;
}

/// What the job takes of its host where it offloads.
std::optional<Bytes> host_bytes_of(const Job& job) {
  if (!job.parallelism.offload.any()) return std::nullopt;
  const auto graph = lower(job.model, policy_of(job));
  if (!std::holds_alternative<Graph>(graph)) return std::nullopt;
  return host_memory_of(std::get<Graph>(graph), job)->taken();
}

}  // namespace

Job Describer::job_of(const PlanCandidate& candidate) const {
  Job job = request_.job;
  job.hardware.gpu = *candidate.gpu;
  job.lay_over(candidate.parallelism);
  job.training->micro_batch = candidate.micro_batch;
  job.training->gradient_accumulation = candidate.gradient_accumulation;
  job.training->recompute = candidate.recompute;
  job.hardware.price.reset();
  job.hardware.price_source.clear();
  if (const Price* price = price_of(request_, *candidate.gpu)) {
    job.hardware.price = price->price;
    job.hardware.price_source = price->source;
  }
  return job;
}

Describer::LedgerKey Describer::key_of(const Evaluated& candidate, const GpuSpec& gpu) {
  return {class_of(gpu),
          gpu.multiprocessors ? gpu.multiprocessors->value : 0,
          memest::key_of(candidate.layout),
          {candidate.batch.micro_batch, candidate.batch.gradient_accumulation},
          candidate.recompute};
}

/// What the changed jobs need is the same on every GPU of a class; what they take is not.
void Describer::add_levers(const LedgerKey& key, const Job& job, PlanVerdict& verdict) {
  const std::vector<Change> changes = changes_of(job);
  const std::vector<Changed>& changed = changed_.at(key, [&] {
    std::vector<Changed> made;
    for (const Change& change : changes) {
      Job other = job;
      change.apply(other);
      if (const std::optional<Ledger> ledger = worst_ledger(other)) {
        made.push_back(
            {change.name, estimate_memory(*ledger, ledger->bindings), host_bytes_of(other)});
      }
    }
    return made;
  });
  const std::optional<double> before = seconds_per_token(job);
  const Capacity capacity = capacity_of(job.hardware);
  for (const auto& [name, after, host] : changed) {
    Lever lever{.name = name,
                .saved = verdict.device - within_limit(after.device(), after.outside, capacity),
                .fits = judge(after, capacity) == Verdict::fits,
                .host = host};
    const auto change = std::ranges::find(changes, name, &Change::name);
    if (before && change != changes.end()) {
      Job other = job;
      change->apply(other);
      if (const auto seconds = seconds_per_token(other)) lever.slower = *seconds / *before;
    }
    verdict.levers.push_back(std::move(lever));
  }
  verdict.levers = ranked(std::move(verdict.levers));
}

PlanVerdict Describer::outline(const Evaluated& candidate, const Group& group,
                               const std::vector<Recompute>& recomputes) const {
  PlanVerdict verdict;
  verdict.candidate = {.gpu = &request_.gpus[group.gpu],
                       .gpus = group.gpus,
                       .parallelism = candidate.layout,
                       .micro_batch = candidate.batch.micro_batch,
                       .gradient_accumulation = candidate.batch.gradient_accumulation,
                       .recompute = recomputes[candidate.recompute]};
  const Job job = job_of(verdict.candidate);
  verdict.verdict = candidate.verdict;
  verdict.device = candidate.device;
  verdict.low = candidate.low;
  verdict.high = candidate.high;
  verdict.capacity = capacity_of(job.hardware).bytes;
  verdict.time = time_of_step(job);
  verdict.cost = cost_of(job, verdict.time);
  return verdict;
}

PlanVerdict Describer::describe(const Evaluated& candidate, const Group& group,
                                const std::vector<Recompute>& recomputes) {
  PlanVerdict verdict = outline(candidate, group, recomputes);
  const Job job = job_of(verdict.candidate);
  const LedgerKey key = key_of(candidate, job.hardware.gpu);
  const Ledger& ledger = ledgers_.at(key, [&] { return *worst_ledger(job); });
  verdict.largest_terms = largest_terms(ledger, estimate_memory(ledger, ledger.bindings));
  verdict.host = hosts_.at(key, [&] { return host_bytes_of(job); });
  if (verdict.verdict == Verdict::fits) return verdict;
  verdict.reason = reason_of(verdict);
  add_levers(key, job, verdict);
  return verdict;
}

std::optional<PlanVerdict> Describer::replay(const PlanVerdict& described) const {
  const Job job = job_of(described.candidate);
  const Capacity capacity = capacity_of(job.hardware);
  PlanVerdict verdict = described;
  verdict.replayed = true;
  verdict.verdict = Verdict::fits;
  verdict.device = Bytes();
  for (const std::int64_t rank : ranks_that_may_take_most(job)) {
    const auto graph = lower(job.model, policy_of(job, rank));
    if (!std::holds_alternative<Graph>(graph)) return std::nullopt;
    auto steps = replay_job(std::get<Graph>(graph), job, rank);
    if (!std::holds_alternative<ReplayedSteps>(steps)) return std::nullopt;
    const Verdict of_rank = judge(std::get<ReplayedSteps>(steps), job);
    if (of_rank == Verdict::does_not_fit || verdict.verdict == Verdict::fits) {
      verdict.verdict = of_rank;
    }
    MemoryAnswer memory;
    memory.ledger = write_ledger(std::get<Graph>(graph), job, rank);
    memory.estimate = estimate_memory(memory.ledger, memory.ledger.bindings);
    memory.replay_margin = margin_of(job.margins().replay, job.recompute());
    memory.replay = std::get<ReplayedSteps>(std::move(steps));
    if (memory.device() <= verdict.device) continue;
    verdict.device = within_limit(memory.device(), memory.estimate.outside, capacity);
    verdict.low = within_limit(memory.low(), memory.estimate.outside_low, capacity);
    verdict.high = within_limit(memory.high(), memory.estimate.outside_high, capacity);
    verdict.largest_terms = largest_terms(memory.ledger, memory.estimate);
  }
  verdict.reason = verdict.verdict == Verdict::fits ? "" : reason_of(verdict);
  return verdict;
}

PlanVerdict Describer::refuse(const Group& group) const {
  const std::string gpus = std::to_string(group.gpus);
  const Unavailable reason{
      group.layouts == 0
          ? "no layout of " + gpus + " GPUs divides the model, or what the spec writes of it"
          : "the global batch of " + std::to_string(request_.job.global_batch()) +
                " sequences does not divide into " + gpus + " equal shares of whole micro-batches"};
  PlanVerdict verdict;
  verdict.candidate.gpu = &request_.gpus[group.gpu];
  verdict.candidate.gpus = group.gpus;
  verdict.verdict = Verdict::does_not_fit;
  Hardware hardware = request_.job.hardware;
  hardware.gpu = request_.gpus[group.gpu];
  verdict.capacity = capacity_of(hardware).bytes;
  verdict.time = reason;
  verdict.cost = reason;
  verdict.reason = reason.sentence;
  return verdict;
}

}  // namespace memest
