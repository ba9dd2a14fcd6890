// How many kernels the host launches for the operations of a step.
#pragma once

#include "memest/time/work.hpp"

namespace memest {

/// Counts the launches of every op of `work`, whose calls are known. Compiled operations launch
/// their calls; others a kernel for every tensor that they make.
void count_launches(StepWork& work, const Implementation& implementation);

}  // namespace memest
