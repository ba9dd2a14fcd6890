// Results that are thrown away though a later operation saved them, and made again before its
// backward reads them: Megatron-core's tensor_parallel.CheckpointWithoutOutput
// (megatron/core/tensor_parallel/random.py, 0.16.1).
#pragma once

#include <cstdint>

#include "memest/spec/training.hpp"

namespace memest {

struct Op;

/// By which word of `recompute` a result is made again.
enum class Remade : std::uint8_t { nothing, norm, expert_activation };

/// Whether `parts` asks for results of this kind.
bool remakes(const SelectiveRecompute& parts, Remade kind);
/// Whether recompute of `parts` runs the operation again.
bool runs_again(const SelectiveRecompute& parts, const Op& op);

}  // namespace memest
