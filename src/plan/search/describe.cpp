#include "plan/search/describe.hpp"

#include <algorithm>

#include "memest/graph/lower.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"
#include "plan/estimate/whole_model.hpp"
#include "plan/layouts/refusal.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

const Price* price_of(const PlanRequest& request, const GpuSpec& gpu) {
  const Price* chosen = nullptr;
  for (const Price& price : request.prices) {
    if (price.gpu != gpu.slug) continue;
    // The price that the catalog calls usual, else the first.
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

/// Whether the spec says how the model is divided.
bool writes_splits(const Job& job) {
  const WrittenKeys& given = job.given;
  return given.tensor || given.context || given.pipeline || given.expert || given.schedule ||
         given.stage_layers;
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

/// The changed job's need comes from its replay, as does `verdict`'s need of the job itself.
void Describer::add_levers(const Job& job, PlanVerdict& verdict) {
  const std::optional<double> before = seconds_per_token(job);
  for (const Change& change : changes_of(job)) {
    Job other = job;
    change.apply(other);
    const auto after = replays_.of(other, Follow::ranks_of_most, change.name);
    if (!after) continue;
    Lever lever{.name = change.name,
                .saved = verdict.device - after->device,
                .fits = after->verdict == Verdict::fits,
                .host = {}};
    if (after->host) lever.host = after->host->of_rank;
    if (before) {
      if (const auto seconds = seconds_per_token(other)) lever.slower = *seconds / *before;
    }
    verdict.levers.push_back(std::move(lever));
  }
  verdict.levers = ranked(std::move(verdict.levers));
}

PlanCandidate Describer::candidate_of(const Evaluated& candidate, const Group& group,
                                      const std::vector<Recompute>& recomputes) const {
  return {.gpu = &request_.gpus[group.gpu],
          .gpus = group.gpus,
          .parallelism = candidate.layout,
          .micro_batch = candidate.batch.micro_batch,
          .gradient_accumulation = candidate.batch.gradient_accumulation,
          .recompute = recomputes[candidate.recompute]};
}

PlanVerdict Describer::outline(const Evaluated& candidate, const Group& group,
                               const std::vector<Recompute>& recomputes) const {
  PlanVerdict verdict;
  verdict.candidate = candidate_of(candidate, group, recomputes);
  const Job job = job_of(verdict.candidate);
  verdict.verdict = candidate.verdict;
  verdict.device = candidate.device;
  verdict.low = candidate.low;
  verdict.high = candidate.high;
  verdict.capacity = capacity_of(job.hardware).bytes;
  verdict.time = time_of_step(job);
  verdict.cost = cost_of(job, verdict.time);
  if (takes_host_memory(job)) {
    verdict.host = host_need_of(candidate.host_of_rank, job, job.hardware);
  }
  if (verdict.verdict != Verdict::fits) verdict.reason = reason_of(verdict);
  return verdict;
}

PlanVerdict Describer::describe(const Evaluated& candidate, const Group& group,
                                const std::vector<Recompute>& recomputes,
                                const CandidateMemory& memory) {
  PlanVerdict verdict = outline(candidate, group, recomputes);
  const Job job = job_of(verdict.candidate);
  verdict.verdict = memory.verdict;
  verdict.replayed = memory.replayed;
  verdict.device = memory.device;
  verdict.low = memory.low;
  verdict.high = memory.high;
  verdict.largest_terms = memory.largest_terms;
  verdict.host = memory.host;
  verdict.reason = verdict.verdict == Verdict::fits ? "" : reason_of(verdict);
  if (verdict.verdict != Verdict::fits) add_levers(job, verdict);
  return verdict;
}

/// Why the group has no candidate: what no graph was made for, where that is the cause.
Unavailable Describer::cause_of(const Group& group) const {
  if (const auto* reason = std::get_if<Unavailable>(&group.unavailable)) return *reason;
  const Job& job = request_.job;
  const Implementation& implementation = job.training->implementation;
  const std::string framework(row_of(implementation.framework).name);
  const std::string gpus = std::to_string(group.gpus);
  if (group.layouts == 0 && writes_splits(job)) {
    return {"no layout of " + gpus + " GPUs divides the model, or what the spec writes of it"};
  }
  if (group.layouts == 0) {
    return {framework + " has no layout of " + gpus +
            " GPUs for such a precision, adapter or quantised base"};
  }
  const bool recomputes =
      std::ranges::any_of(recompute_choices(job), [&](const Recompute& recompute) {
        return leaves_recompute(implementation, group.gpus, recompute);
      });
  if (!recomputes) {
    return {framework + " does not train with 'recompute: " + text_of(job.training->recompute) +
            "' on " + gpus + (group.gpus == 1 ? " GPU" : " GPUs")};
  }
  return {"the global batch of " + std::to_string(request_.job.global_batch()) +
          " sequences does not divide into " + gpus + " equal shares of whole micro-batches"};
}

PlanVerdict Describer::refuse(const Group& group) const {
  const Unavailable reason = cause_of(group);
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
