// The time of one execution of one pass of an operation.
#pragma once

#include "memest/time/step_time.hpp"
#include "memest/time/work.hpp"
#include "rates.hpp"

namespace memest {

enum class Pass : std::uint8_t { forward, backward };

struct KernelTime {
  double seconds = 0;
  Bound bound = Bound::launch;
};

/// The slowest of compute, traffic and launch; zero for an op that runs no kernel.
KernelTime kernel_time(const OpWork& work, Pass pass, double seq_len, const Rates& rates);

}  // namespace memest
