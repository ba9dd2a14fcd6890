// `training.ema`: a moving average of the weights beside the trained model.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Refuses a moving average beside what no run with one was recorded with.
void check_average(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
