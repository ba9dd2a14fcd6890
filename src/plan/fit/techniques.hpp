// Techniques of which a ladder asks for a quantity.
#pragma once

#include <cstdint>

#include "memest/plan/fit.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// Layers that a stage of the job's pipeline has; 0 where the model has none that are alike.
std::int64_t layers_of_stage(const Job& job);

/// Recompute of the first `layers` of each stage; without a change where the program has no words
/// for it.
Technique recompute_first(const Job& job, std::int64_t layers);

}  // namespace memest
