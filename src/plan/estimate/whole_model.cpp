#include "plan/estimate/whole_model.hpp"

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/time/flops.hpp"

namespace memest {

std::variant<Graph, Unavailable> lower_whole(const Job& job) {
  LoweringPolicy policy = policy_of(job);
  // No stages: FLOPs and times are those of all layers, and mean_of_stages divides them.
  policy.parts.clear();
  return lower(job.model, policy);
}

std::variant<TimeEstimate, Unavailable> time_of_step(const Job& job) {
  const auto whole = lower_whole(job);
  if (const auto* reason = std::get_if<Unavailable>(&whole)) return *reason;
  return time_of_step(std::get<Graph>(whole), job);
}

std::variant<TimeEstimate, Unavailable> time_of_step(const Graph& whole, const Job& job) {
  return estimate_step_time(whole, job,
                            mean_of_stages(count_flops(whole, job), job.parallelism.pipeline));
}

}  // namespace memest
