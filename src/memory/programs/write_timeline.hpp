// The timeline with every micro-step followed, to which tests hold the one that copies equal ones.
#pragma once

#include <cstdint>
#include <variant>

#include "memest/memory/timeline.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

std::variant<Timeline, Unavailable> write_timeline(const Graph& graph, const Job& job, JobRank rank,
                                                   EqualMicroSteps equal);

}  // namespace memest
