// How long a timeline may get: one of a model that nobody trains would take minutes and gigabytes.
#pragma once

#include <optional>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Why the timeline of `job` over `graph` would have too many events; nothing where it has not.
std::optional<Unavailable> find_too_many_events(const Graph& graph, const Job& job);

}  // namespace memest
