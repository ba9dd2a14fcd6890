// States that are kept narrower than they are stepped, as Transformer Engine's FusedAdam keeps
// them: each tensor with an fp32 scale, and a copy in fp32 for the length of a step. Source:
// transformer_engine/pytorch/optimizers/fused_adam.py, Transformer Engine 2.11.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Whether the optimizer holds the main parameters and steps its states in fp32 copies.
bool steps_in_copies(const Optimizer& optimizer);

/// The type that a state is stepped in, whatever it is kept in.
inline constexpr DType kSteppedState = DType::fp32;
/// An fp32 scale a tensor and scaled state.
inline constexpr std::int64_t kStateScaleBytes = 4;

/// Bytes an element that the step makes to narrow a state again, parameter by parameter: the bf16
/// copy of unscaled_state.bfloat16(). fp16 is scaled in place and written where it stays.
std::int64_t narrowing_bytes(const OptimizerState& state);

/// The scales of all tensors.
std::vector<LedgerTerm> scale_terms(const Job& job, const Inventory& inventory);

/// Copies of all that is stepped, and what the largest parameter's way back takes.
std::vector<LedgerTerm> widening_terms(const Job& job, const Inventory& inventory);

}  // namespace memest
