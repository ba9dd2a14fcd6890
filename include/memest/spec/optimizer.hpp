// An optimizer as data (configs/optimizers): which states it keeps for a parameter tensor, and what
// one step allocates on top.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"

namespace memest {

/// The shape of a state tensor for a parameter of shape [n, m, ...].
enum class StateShape : std::uint8_t {
  like_parameter,    ///< as many elements as the parameter
  rows_and_columns,  ///< n + m for matrices (Adafactor's factors), like the parameter for vectors
  blockwise_8bit,  ///< 1 B an element + 4 B a block of 256; fp32 below 4096 elements (bitsandbytes)
  square_factors,  ///< n² + m² for matrices, like the parameter for vectors (Shampoo, SOAP)
  remainders,      ///< 16 bits an element: what a bf16 parameter lacks of an fp32 one
  scalar           ///< one fp32 a tensor on the device (fused AdamW's step)
};

struct OptimizerState {
  std::string name;  ///< "exp_avg"
  StateShape shape = StateShape::like_parameter;
  std::optional<DType> dtype;  ///< none: the recipe's type for states
  bool on_host = false;        ///< paged variants: host-backed, not on the device
  bool matrices_only = false;  ///< only parameters of two and more dimensions (Muon's momentum)
  bool vectors_only = false;   ///< only the others (Muon's AdamW part)
  std::int64_t largest_factor =
      0;  ///< square factors: dimensions above it keep none (SOAP: 10,000); 0: no limit
  /// Narrower than it is stepped: an fp32 scale a tensor beside it, an fp32 copy for every step
  /// (Transformer Engine's FusedAdam).
  bool scaled = false;
  /// Embedding tables have it in fp32, where others have 8-bit codes (register_module_override of
  /// transformers' Trainer).
  bool wide_embeddings = false;
  bool main = false;  ///< the parameter as it is stepped: the optimizer's own master copy
};

/// Bytes that one step needs beside the states, in copies of what is stepped.
struct StepTransient {
  std::int64_t whole_copies = 0;  ///< copies of all stepped parameters at once (foreach AdamW: 1)
  std::int64_t largest_copies =
      0;  ///< copies of the largest tensor alone (Adafactor: 3, Muon's temporaries)
  bool running_pair =
      false;  ///< max over i of 2·s_i + s_(i−1) in order of parameters (for-loop AdamW)
  std::optional<DType> dtype;  ///< none: the type of the stepped parameters
};

enum class OptimizerImplementation : std::uint8_t { foreach_, fused, for_loop };

/// "foreach", "fused", "for-loop".
std::string_view name_of(OptimizerImplementation implementation);

struct ImplementationTransient {
  OptimizerImplementation implementation = OptimizerImplementation::foreach_;
  StepTransient transient;
  std::vector<OptimizerState>
      extra_states;  ///< states that only this implementation keeps on the device
};

/// The arithmetic of a step, where it is known operation by operation.
enum class OptimizerRule : std::uint8_t {
  other,
  sgd,
  momentum,
  adam,
  adamw,
  amsgrad,
  rmsprop,
  rmsprop_centered,
  rmsprop_centered_momentum,
  adagrad,
  adamax,
  nadam,
  radam,
  rprop,
  adadelta,
  asgd,
  adafactor,
  adafactor_transformers,
  lion,
  muon,
  shampoo,
  soap
};

struct Optimizer {
  std::string name;  ///< "adamw"
  OptimizerRule rule = OptimizerRule::other;
  std::string description;
  std::string source;
  std::vector<OptimizerState> states;
  /// Its states are in types of their own (Megatron's precision-aware one), not in a recipe's.
  bool typed = false;
  bool states_in_constructor = false;  ///< made before the first step (Adagrad), not in it
  std::vector<ImplementationTransient> implementations;  ///< the first is the framework's default

  /// The main parameters, where the optimizer itself holds them (Megatron's precision-aware one);
  /// null where they are a recipe's.
  [[nodiscard]] const OptimizerState* main_parameters() const {
    for (const OptimizerState& state : states) {
      if (state.main) return &state;
    }
    return nullptr;
  }
};

/// "bf16", "remainders": what an optimizer with types of its own keeps its state `name` in; empty
/// where a recipe says it.
std::string_view own_type_of(std::string_view name, const Optimizer& optimizer);

}  // namespace memest
