// A precision recipe: which copy of a parameter exists in which type, and where the matmuls run.
// Recipes are data (configs/recipes); 2Φ + 2Φ + KΦ is one of them.
#pragma once

#include <optional>
#include <string>

#include "memest/spec/dtype.hpp"
#include "memest/spec/float8.hpp"

namespace memest {

struct Recipe {
  std::string name;             ///< "amp-bf16"
  std::string description;      ///< one sentence
  std::string source;           ///< where the rule is written
  DType weights = DType::fp32;  ///< the model's own parameters
  /// The trained parameters, where an adapter has a type other than `weights`.
  std::optional<DType> trained = {};
  DType gradients = DType::fp32;  ///< gradients that the backward pass leaves for the optimizer
  std::optional<DType> master;    ///< the optimizer's own copy of the parameters
  DType states = DType::fp32;     ///< the optimizer's states ("like parameter" states)
  DType compute = DType::fp32;    ///< matmuls and their activations
  /// torch.autocast over the model: fp32 residual stream, cast copies of matmul weights from
  /// forward to backward.
  bool autocast = false;
  /// The model lives in shards of `weights` and is gathered unit by unit in `compute` (FSDP2's
  /// mixed-precision policy).
  bool gathered_units = false;
  /// Type of the gradients while they are reduced over the ranks; where `gathered_units`.
  DType reduce = DType::fp32;
  /// A copy of the gradients in this type from the optimizer step to zero_grad (Megatron with bf16
  /// gradients).
  std::optional<DType> step_gradients;
  /// fp8 copies of matmul weights kept beside the weights: cast, and transposed where the hardware
  /// wants it.
  int fp8_weight_copies = 0;
  /// Products of Megatron's layers of Transformer Engine; where they are, the copies are counted by
  /// it.
  std::optional<TeRecipe> te_recipe = {};

  /// Whether a pass sees weights that were cast as they were gathered.
  [[nodiscard]] bool casts_gathered() const { return gathered_units; }
  /// The weights' type as a pass sees them.
  [[nodiscard]] DType passed_weights() const { return gathered_units ? compute : weights; }
  /// The gradients' type as they are reduced.
  [[nodiscard]] DType reduced_gradients() const { return gathered_units ? reduce : gradients; }
};

}  // namespace memest
