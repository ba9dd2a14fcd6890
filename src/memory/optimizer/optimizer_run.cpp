#include "memory/optimizer/optimizer_run.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/expert_ranks.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/scaled_states.hpp"
#include "memory/states/state_sizes.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// Over which an expert's gradient is a DTensor, reduced one by one. Expert ranks and those that
/// shard an expert, if several do, are together the ranks of torchtitan's "loss_mesh", which is
/// flattened, unless there are replicas or tensor ranks: one reduction for both (_redistribute.py,
/// _get_flattened_mesh_by_layout).
int meshes_of_experts(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const GatheredUnits* units = units_of(sharding);
  const bool is_flattened =
      (units == nullptr || units->replicas == 1) && job.parallelism.tensor == 1;
  return !is_flattened && job.parallelism.expert_shard_ranks() > 1 ? 2 : 1;
}

}  // namespace

OptimizerRun::OptimizerRun(const Job& job, std::vector<ParameterGroup> groups,
                           const std::optional<LaunchDevice>& device, Recorder& recorder)
    : training_(*job.training),
      implementation_(implementation_of(training_)),
      groups_(std::move(groups)),
      device_(device),
      recorder_(recorder),
      sharded_meshes_((shards_by<RowShards>(job) ? 1 : 0) + (job.parallelism.tensor > 1 ? 1 : 0)),
      tensor_ranks_(job.parallelism.tensor),
      keeps_unreduced_(row_of(training_.implementation.framework).splits.by_dtensor &&
                       tensor_ranks_ > 1 && units_of(sharding_of(job)) == nullptr),
      experts_apart_(has_experts_apart(job)),
      expert_meshes_(meshes_of_experts(job)) {}

void OptimizerRun::construct() {
  if (training_.recipe.master) {
    const std::int64_t bytes = size_of(*training_.recipe.master);
    for (const ParameterGroup& group : groups_) {
      for (const SteppedTensor& tensor : group) {
        recorder_.allocate(
            checked_multiply(tensor.elements, bytes),
            parameter_label(Holding::optimizer_states, tensor.parameter, kMasterCopy));
      }
    }
  }
  if (!training_.optimizer.states_in_constructor) return;
  for (const ParameterGroup& group : groups_) make_states(group);
  has_states_ = true;
}

/// The first 8-bit state sends the values of its codes to the device.
void OptimizerRun::make_maps(const SteppedTensor& tensor) {
  if (has_maps_) return;
  std::uint16_t index = 0;
  for (const OptimizerState& state : training_.optimizer.states) {
    ++index;
    if (!is_coded(state, *tensor.row)) continue;
    has_maps_ = true;
    recorder_.allocate(kMapOfCodes,
                       parameter_label(Holding::optimizer_states, tensor.parameter, index));
  }
}

void OptimizerRun::make_states(const ParameterGroup& group) {
  std::vector<const OptimizerState*> states;
  for (const OptimizerState& state : implementation_.extra_states) states.push_back(&state);
  for (const OptimizerState& state : training_.optimizer.states) states.push_back(&state);
  for (const SteppedTensor& tensor : group) {
    make_maps(tensor);
    // bitsandbytes makes the codes of all of a parameter's states, then their scales.
    for (const bool scales : {false, true}) {
      for (std::size_t i = 0; i < states.size(); ++i) {
        const auto bytes = state_tensors(*states[i], *tensor.row, training_.recipe);
        const bool coded = is_coded(*states[i], *tensor.row);
        const std::size_t codes = coded ? 1 : bytes.size();
        const std::size_t begin = scales ? codes : managed_tensors(*states[i], *tensor.row);
        for (std::size_t k = begin; k < (scales ? bytes.size() : codes); ++k) {
          recorder_.allocate(bytes[k], parameter_label(Holding::optimizer_states, tensor.parameter,
                                                       static_cast<std::uint16_t>(i + 1)));
        }
      }
    }
  }
}

void OptimizerRun::widen_gradients() {
  const Recipe& recipe = training_.recipe;
  const bool widened = recipe.master && size_of(recipe.gradients) < size_of(*recipe.master);
  if (!recipe.step_gradients && !widened) return;
  const std::int64_t bytes = size_of(recipe.step_gradients.value_or(stepped_type(recipe)));
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      wide_gradients_.push_back(recorder_.make(
          checked_multiply(tensor.elements, bytes),
          loop_label(Holding::temporaries, LoopTensor::gradient_in_master_type, tensor.parameter)));
    }
  }
}

void OptimizerRun::step() {
  if (wide_gradients_.empty()) widen_gradients();
  if (has_trainers_adafactor()) {
    step_adafactor();
  } else if (steps_in_copies(training_.optimizer)) {
    step_fused_adam();
  } else {
    for (const ParameterGroup& group : groups_) {
      if (!has_states_) make_states(group);
      read_unreduced(group);
      step_lists(group);
      step_one_by_one(group);
    }
  }
  has_states_ = true;
  if (!training_.recipe.step_gradients) zero_grad();
}

/// The fused step is one operation; that over lists averages the gradients, then their squares, of
/// which it reads both factors.
void OptimizerRun::read_unreduced(const ParameterGroup& group) {
  relaid_gradients(group, true).drop();
  if (training_.optimizer_implementation != OptimizerImplementation::foreach_) return;
  const HeldList factor = relaid_gradients(group, true);
  relaid_gradients(group, true).drop();
}

void OptimizerRun::zero_grad() { wide_gradients_.drop(); }

HeldStorage OptimizerRun::temporary(const SteppedTensor& tensor) {
  const DType type =
      implementation_.transient.dtype.value_or(stepped_type(training_.recipe, *tensor.row));
  return recorder_.make(
      checked_multiply(tensor.elements, size_of(type)),
      loop_label(Holding::temporaries, LoopTensor::step_temporary, tensor.parameter));
}

std::vector<DType> OptimizerRun::gradient_types() const {
  std::vector<DType> types;
  for (const ParameterGroup& group : groups_) {
    for (const SteppedTensor& tensor : group) {
      const DType type = gradient_type(tensor);
      if (std::find(types.begin(), types.end(), type) != types.end()) continue;
      types.insert(tensor.row->whole_module ? types.begin() : types.end(), type);
    }
  }
  return types;
}

DType OptimizerRun::gradient_type(const SteppedTensor& tensor) const {
  const Recipe& recipe = training_.recipe;
  return tensor.row->whole_module ? recipe.weights : recipe.gradients;
}

/// foreach: each temporary is a list over all tensors of a type, and has a name until the next
/// type's takes it.
void OptimizerRun::step_lists(const ParameterGroup& group) {
  const std::int64_t copies = implementation_.transient.whole_copies;
  if (copies == 0) return;
  HeldList named;
  for (const DType type : gradient_types()) {
    HeldList made;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      for (const SteppedTensor& tensor : group) {
        if (gradient_type(tensor) == type) made.push_back(temporary(tensor));
      }
    }
    named = std::move(made);
  }
}

/// A loop over tensors. The last temporary of a tensor is a local that stays until the next
/// tensor's takes its name; AdamW's quotient replaces it only after its own root is made and gone.
void OptimizerRun::step_one_by_one(const ParameterGroup& group) {
  const StepTransient& transient = implementation_.transient;
  const std::int64_t copies = transient.running_pair ? 2 : transient.largest_copies - 1;
  if (copies <= 0) return;
  HeldStorage kept;
  HeldVector made;
  for (const SteppedTensor& tensor : group) {
    for (std::int64_t copy = 0; copy < copies; ++copy) made.push_back(temporary(tensor));
    HeldStorage last = std::move(made.back());
    made.drop();
    kept = std::move(last);
  }
}

}  // namespace memest
