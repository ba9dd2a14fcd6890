#include "whole_model.hpp"

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/time/flops.hpp"

namespace memest {

std::variant<Graph, Unavailable> lower_whole(const Job& job) {
  LoweringPolicy policy = policy_of(job);
  policy.parts.clear();
  return lower(job.model, policy);
}

std::variant<TimeEstimate, Unavailable> time_of_step(const Job& job) {
  const auto whole = lower_whole(job);
  if (const auto* reason = std::get_if<Unavailable>(&whole)) return *reason;
  const Graph& graph = std::get<Graph>(whole);
  return estimate_step_time(graph, job,
                            mean_of_stages(count_flops(graph, job), job.parallelism.pipeline));
}

}  // namespace memest
