#include "time/optimizer_traffic.hpp"

#include <array>
#include <string_view>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// foreach and for-loop AdamW run eight kernels that read or write 20 tensors of parameter size
/// where the fused kernel moves 7 (reads p, g, m, v; writes p, m, v). Source: torch/optim/adamw.py,
/// _multi_tensor_adamw against _fused_adamw. Taken for optimizers whose kernels are not counted.
constexpr double kUnfusedPasses = 20.0 / 7.0;

/// Tensors that a fused kernel moves of a parameter beside its states: reads p and g,
/// writes p.
constexpr std::int64_t kFusedWithoutStates = 3;

/// Tensors of a parameter's size that the kernels of a step read or write. Source: the operations
/// that PyTorch 2.11's torch.optim and transformers 5.17's Adafactor dispatch in one step, counted
/// one by one; lion-pytorch, update_fn.
struct StepPasses {
  OptimizerRule rule;
  std::int64_t foreach_;
  std::int64_t for_loop;
};

constexpr std::array kStepPasses = {
    StepPasses{OptimizerRule::sgd, 3, 3},
    StepPasses{OptimizerRule::momentum, 8, 8},
    StepPasses{OptimizerRule::adam, 18, 18},
    StepPasses{OptimizerRule::adamw, 20, 20},
    StepPasses{OptimizerRule::amsgrad, 23, 22},
    StepPasses{OptimizerRule::rmsprop, 13, 13},
    StepPasses{OptimizerRule::rmsprop_centered, 19, 19},
    StepPasses{OptimizerRule::rmsprop_centered_momentum, 24, 24},
    StepPasses{OptimizerRule::adagrad, 13, 11},
    StepPasses{OptimizerRule::adamax, 16, 15},
    StepPasses{OptimizerRule::nadam, 22, 22},
    StepPasses{OptimizerRule::radam, 22, 26},
    StepPasses{OptimizerRule::rprop, 40, 40},
    StepPasses{OptimizerRule::adadelta, 27, 27},
    StepPasses{OptimizerRule::asgd, 12, 7},
    StepPasses{OptimizerRule::adafactor, 19, 17},
    StepPasses{OptimizerRule::adafactor_transformers, 21, 21},
    StepPasses{OptimizerRule::lion, 19, 19},
};

/// bitsandbytes: one fp32 scale for a block of 256 elements.
constexpr double kBlockwiseBytes = 1.0 + 4.0 / 256.0;

/// Remainders: the 16 bits that a bf16 element lacks of fp32.
constexpr double kRemainderBytes = 2.0;

struct TensorExtent {
  double elements = 1;
  double rows = 1;
  double columns = 1;
  bool is_matrix = false;
  bool is_table = false;  ///< of an embedding
};

TensorExtent tensor_of(const ParameterTensor& parameter) {
  TensorExtent tensor;
  for (const std::int64_t size : parameter.shape) tensor.elements *= static_cast<double>(size);
  tensor.is_matrix = parameter.shape.size() >= 2;
  tensor.is_table = parameter.role == ParameterRole::embedding;
  if (tensor.is_matrix) {
    tensor.rows = static_cast<double>(parameter.shape.front());
    tensor.columns = tensor.elements / tensor.rows;
  }
  return tensor;
}

double state_bytes(const OptimizerState& state, const TensorExtent& tensor, DType recipe_type) {
  if (state.matrices_only && !tensor.is_matrix) return 0;
  if (state.vectors_only && tensor.is_matrix) return 0;
  const auto size = static_cast<double>(size_of(state.dtype.value_or(recipe_type)));
  const auto kept = [&](double dimension) {
    const bool too_large =
        state.largest_factor > 0 && dimension > static_cast<double>(state.largest_factor);
    return too_large ? 0.0 : dimension * dimension;
  };
  switch (state.shape) {
    case StateShape::like_parameter:
      return tensor.elements * size;
    case StateShape::rows_and_columns:
      return (tensor.is_matrix ? tensor.rows + tensor.columns : tensor.elements) * size;
    case StateShape::blockwise_8bit:
      return tensor.elements *
             (state.wide_embeddings && tensor.is_table ? size_of(DType::fp32) : kBlockwiseBytes);
    case StateShape::square_factors:
      return (tensor.is_matrix ? kept(tensor.rows) + kept(tensor.columns) : tensor.elements) * size;
    case StateShape::remainders:
      return tensor.elements * kRemainderBytes;
    case StateShape::scalar:
      return 0;
  }
  unreachable("every state has a shape");
}

/// Bytes an element that the kernels around and in a step read and write of a state that is kept
/// narrow and stepped in fp32. Source: Transformer Engine 2.11, FusedAdam: get_unscaled_state, the
/// kernel, _apply_scale.
constexpr double scaled_bytes(DType kept) {
  constexpr double kWiden = 2 + 4;   // float()
  constexpr double kStep = 4 + 4;    // read and written in fp32
  constexpr double kNarrow = 4 + 2;  // into 16 bits
  // bfloat16() and copy_() of its result; fp16 is multiplied by its scale, finds its extremes, and
  // is multiplied by the new scale's reciprocal before copy_() narrows it.
  return kept == DType::bf16 ? kWiden + kStep + kNarrow + (2 + 2)
                             : kWiden + (4 + 4) + kStep + 4 + (4 + 4) + kNarrow;
}

/// Bytes that a step moves of a state: each of its tensors is read and written.
double moved_bytes(const OptimizerState& state, const TensorExtent& tensor, const Recipe& recipe) {
  if (state.scaled) return tensor.elements * scaled_bytes(state.dtype.value_or(recipe.states));
  return 2.0 * state_bytes(state, tensor, recipe.states);
}

/// Bytes an element of the weights and their master copy: where there is one the weights are only
/// written. The optimizer's own main parameters are states.
double copied_bytes(const TrainingSpec& training) {
  const Recipe& recipe = training.recipe;
  const auto weights = static_cast<double>(size_of(recipe.weights));
  const OptimizerState* main = training.optimizer.main_parameters();
  if (main != nullptr && main->shape != StateShape::remainders) return weights;
  // A fused step reads and writes the master and writes the 16-bit weights: 2 + 4 + 4 B.
  return recipe.master ? weights + 2.0 * static_cast<double>(size_of(*recipe.master))
                       : 2.0 * weights;
}

/// Bytes that a step's kernels move, over those of one that reads and writes each tensor once.
double passes_over_fused(const TrainingSpec& training) {
  for (const StepPasses& step : kStepPasses) {
    if (step.rule != training.optimizer.rule) continue;
    const bool loops = training.optimizer_implementation == OptimizerImplementation::for_loop;
    std::int64_t fused = kFusedWithoutStates;
    for (const OptimizerState& state : training.optimizer.states) {
      // Each is read and written: AdamW's two moments make 3 + 4 = 7.
      if (state.shape == StateShape::like_parameter) fused += 2;
    }
    return static_cast<double>(loops ? step.for_loop : step.foreach_) / static_cast<double>(fused);
  }
  return kUnfusedPasses;
}

/// _foreach_lerp_ reads average and weights, and writes the average.
double average_bytes(const Inventory& inventory, const TrainingSpec& training) {
  constexpr double kPasses = 3;
  double elements = 0;
  for (const ParameterTensor& parameter : inventory.parameters) {
    elements += static_cast<double>(parameter.count) * tensor_of(parameter).elements;
  }
  return kPasses * elements * static_cast<double>(size_of(training.recipe.weights));
}

}  // namespace

double optimizer_bytes(const Inventory& inventory, const TrainingSpec& training) {
  const Recipe& recipe = training.recipe;
  // The optimizers that keep a master copy (apex, DeepSpeed, Megatron) are fused.
  const bool fused = recipe.master.has_value() ||
                     training.optimizer_implementation == OptimizerImplementation::fused;
  const auto gradients = static_cast<double>(size_of(recipe.gradients));
  const double copied = copied_bytes(training);
  double bytes = 0;
  for (const ParameterTensor& parameter : inventory.parameters) {
    if (!parameter.trainable) continue;
    const TensorExtent tensor = tensor_of(parameter);
    double states = 0;
    for (const OptimizerState& state : training.optimizer.states) {
      states += moved_bytes(state, tensor, recipe);
    }
    bytes += static_cast<double>(parameter.count) *
             // bf16 with fp32 master and moments: 10 B of weights, 2 of gradients, 16 of moments
             // are 28 B.
             (tensor.elements * (copied + gradients) + states);
  }
  const double stepped = fused ? bytes : bytes * passes_over_fused(training);
  return training.averages_weights ? stepped + average_bytes(inventory, training) : stepped;
}

double gradient_upkeep_bytes(double trainable, const TrainingSpec& training) {
  // The norm reads the gradients; scaling reads and writes them; zeroing writes them.
  const double passes =
      (training.clip_gradients ? 3.0 : 0.0) + (training.zero_grad == ZeroGrad::zeros ? 1.0 : 0.0);
  const double upkeep =
      passes * trainable * static_cast<double>(size_of(training.recipe.gradients));
  // Megatron's scaler divides the step's gradients by the loss scale where they lie, and looks for
  // overflows (_amp_foreach_non_finite_check_and_unscale_).
  const auto& step = training.recipe.step_gradients;
  const bool unscales = step && training.recipe.weights == DType::fp16;
  return unscales ? upkeep + 2.0 * trainable * static_cast<double>(size_of(*step)) : upkeep;
}

}  // namespace memest
