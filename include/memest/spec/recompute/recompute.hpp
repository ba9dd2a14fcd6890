// Tensors that the backward pass recomputes instead of keeping.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/units/quantity.hpp"

namespace memest {

struct NoRecompute {};
/// Which layers full recompute takes together (Megatron's recompute_method).
enum class RecomputeMethod : std::uint8_t {
  uniform,  ///< every `layers` layers share a checkpoint
  block     ///< the first `layers` layers of a stage have one each, the others none
};
/// Every block keeps its input only.
struct FullRecompute {
  bool reentrant = false;
  RecomputeMethod method = RecomputeMethod::uniform;
  std::int64_t layers = 1;
  bool distribute = false;  ///< kept inputs are cut over the tensor-parallel ranks
};
/// Parts of a layer are recomputed: by default the attention core (scores, softmax, dropout).
struct SelectiveRecompute {
  bool attention_core = true;
  bool feed_forward = false;    ///< of dense layers
  bool experts = false;         ///< whole layers of experts: router, dispatch and shared ones too
  bool shared_experts = false;  ///< these alone
  bool norms = false;           ///< what norms answer, thrown away once it was read
  bool expert_activation = false;  ///< the same of the experts' activation
  bool latent_projection = false;  ///< and of heads that latent attention makes of its latents
  bool predictions =
      false;  ///< layers of multi-token prediction: beside whole layers, without word

  auto operator<=>(const SelectiveRecompute&) const = default;
  /// Whether some results are made again that later operations have saved.
  [[nodiscard]] bool remakes() const { return norms || expert_activation || latent_projection; }
  /// Whether some part beside the attention core is recomputed, which Megatron alone does.
  [[nodiscard]] bool beyond_attention() const {
    return feed_forward || experts || shared_experts || remakes();
  }
};

/// A word of `recompute: {selective: [...]}`, and Megatron's for it in recompute_modules.
struct SelectiveWord {
  std::string_view word;
  std::string_view module;
  bool SelectiveRecompute::* part;
};
inline constexpr SelectiveWord kSelectiveWords[] = {
    {"attention-core", "core_attn", &SelectiveRecompute::attention_core},
    {"feed-forward", "mlp", &SelectiveRecompute::feed_forward},
    {"mla-up-proj", "mla_up_proj", &SelectiveRecompute::latent_projection},
    {"moe", "moe", &SelectiveRecompute::experts},
    {"moe-activation", "moe_act", &SelectiveRecompute::expert_activation},
    {"norm", "layernorm", &SelectiveRecompute::norms},
    {"shared-experts", "shared_experts", &SelectiveRecompute::shared_experts},
};

struct EveryRecompute {
  std::int64_t every = 1;
};  ///< one checkpoint for every `every` blocks
struct SqrtRecompute {};  ///< ⌈√L⌉ checkpoints
/// Layers of the model, counted from 0 in forward order, each in a checkpoint of its own.
struct ChosenRecompute {
  std::vector<std::int64_t> layers;  ///< ascending, none twice
};
/// As little as fits into so much memory. No step is known of it: one of the others takes its place
/// before a job is looked at (plan/recompute_budget.hpp).
struct BudgetRecompute {
  Bytes budget;
};
using Recompute = std::variant<NoRecompute, FullRecompute, SelectiveRecompute, EveryRecompute,
                               SqrtRecompute, ChosenRecompute, BudgetRecompute>;

}  // namespace memest
