// Transformer Engine's FusedAdam with states of its own types
// (transformer_engine/pytorch/optimizers/fused_adam.py, Transformer Engine 2.11): a step of a
// parameter group widens what is narrow, runs its kernel over the lists, and narrows it again.
#include "memest/units/int128.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/states/scaled_states.hpp"
#include "memory/states/state_sizes.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

/// _initialize_state: the state, then its scale. A main parameter that is no remainder begins as a
/// copy of the parameter in fp32 (param.clone().detach().float()), which is then copied into it.
void OptimizerRun::make_fused_state(const SteppedTensor& tensor, std::uint16_t index) {
  const OptimizerState& state = training_.optimizer.states[index];
  const Label kept = parameter_label(Holding::optimizer_states, tensor.parameter,
                                     static_cast<std::uint16_t>(index + 1));
  const DType type = state.dtype.value_or(kSteppedState);
  for (const std::int64_t bytes : tensors_of(state, *tensor.row, size_of(type))) {
    recorder_.allocate(bytes, kept);
  }
  if (state.scaled) recorder_.allocate(kStateScaleBytes, kept);
  if (!state.main || state.shape == StateShape::remainders) return;
  HeldStorage copy = fused_temporary(tensor, size_of(training_.recipe.weights));
  const HeldStorage wide = fused_temporary(tensor, size_of(kSteppedState));
  copy.drop();
}

HeldStorage OptimizerRun::fused_temporary(const SteppedTensor& tensor, std::int64_t bytes) {
  return recorder_.make(
      checked_multiply(tensor.elements, bytes),
      loop_label(Holding::temporaries, LoopTensor::step_temporary, tensor.parameter));
}

/// The name tensor_lists keeps a group's copies until the next group's have its place, behind their
/// own making; `del unscaled_lists` frees none of them.
void OptimizerRun::step_fused_adam() {
  const std::vector<OptimizerState>& states = training_.optimizer.states;
  HeldVector listed;
  for (const ParameterGroup& group : groups_) {
    if (group.empty()) continue;
    HeldVector widened;
    for (const SteppedTensor& tensor : group) {
      for (std::size_t i = 0; i < states.size() && !has_states_; ++i) {
        make_fused_state(tensor, static_cast<std::uint16_t>(i));
      }
      for (const OptimizerState& state : states) {
        if (state.scaled) {
          widened.push_back(fused_temporary(tensor, size_of(kSteppedState)));
        }
      }
    }
    listed = std::move(widened);
    for (const OptimizerState& state : states) {
      const std::int64_t bytes = narrowing_bytes(state);
      for (const SteppedTensor& tensor : group) fused_temporary(tensor, bytes).drop();
    }
  }
}

}  // namespace memest
