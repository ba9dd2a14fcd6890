// Habits of a program around its replicas: how torch.nn.parallel.DistributedDataParallel wraps
// them, and whether they report together.
#pragma once

#include <cstdint>

#include "memest/spec/job.hpp"

namespace memest {

/// Whether it looks for parameters that a forward did not use: then it answers copies of what the
/// model does.
bool finds_unused_parameters(const Job& job);

/// Data ranks of which the program gathers the numbers that it reports; 1: it gathers none.
std::int64_t reporting_ranks(const TrainingSpec& training, const Parallelism& parallelism);

}  // namespace memest
