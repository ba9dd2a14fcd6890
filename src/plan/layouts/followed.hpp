// Which candidates of a search the events of their steps judge, not formulas.
#pragma once

#include "memest/spec/job.hpp"

namespace memest {

/// Whether `job`'s candidates of this layout are followed event by event: those that have no
/// formulas, and TRL's loss behind FSDP2's head, of which they are 6 % too high. Adapters of
/// Megatron's layers are not: the formulas of the model tell their order.
bool is_followed(const Job& job, const Parallelism& layout);

}  // namespace memest
