// How long a timeline may get: one of a model that nobody trains would take minutes and gigabytes.
#pragma once

#include <cstdint>
#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Events that the timeline of `job` over `graph` has at most, by and large: within twice of what
/// it has. Why there are too many of them to write, where there are.
std::variant<std::int64_t, Unavailable> most_events(const Graph& graph, const Job& job);

}  // namespace memest
