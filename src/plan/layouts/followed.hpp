// Which candidates of a search the events of their steps judge, not formulas.
#pragma once

#include "memest/spec/job.hpp"

namespace memest {

/// Whether `job`'s candidates of this layout are followed event by event: what has no formulas, but
/// for adapters of Megatron's layers, whose order those of the model tell, and TRL's loss behind
/// FSDP2's head, of which the formulas are 6 % too high.
bool is_followed(const Job& job, const Parallelism& layout);

}  // namespace memest
