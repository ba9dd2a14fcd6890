// A job's step by its whole model: what every stage and schedule of it is timed by.
#pragma once

#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// All layers in one graph, as the job's tensor, context and expert ranks share them.
std::variant<Graph, Unavailable> lower_whole(const Job& job);

/// `job.training` is present.
std::variant<TimeEstimate, Unavailable> time_of_step(const Job& job);
/// As above, with the whole model's graph lowered already.
std::variant<TimeEstimate, Unavailable> time_of_step(const Graph& whole, const Job& job);

}  // namespace memest
