// A job and its answer, made by hand: round numbers, so that a test can say what must be printed.
#pragma once

#include "memest/plan/estimate.hpp"
#include "memest/spec/job.hpp"

namespace memest {

Job example_job();

/// 2 GiB of weights, 2 GiB of gradients, 12 GiB of states, 4 GiB of activations, 0.5 GiB outside;
/// 24 GiB on the device.
JobEstimate example_estimate();

}  // namespace memest
