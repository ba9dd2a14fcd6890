// LoRA beside Megatron's linear layers, as Megatron-Bridge has it (src/megatron/bridge/peft of
// 2026: LoRALinear around a layer, ParallelLinearAdapter with two of Megatron's own parallel
// layers). All that is the model's is frozen.
#pragma once

#include <optional>
#include <string_view>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {

/// The product with what an adapter of it adds, frozen where it has none. column_product() and
/// row_product() are these where an adapter is trained.
TensorId adapted_column_product(BlockBuilder& block, const MegatronContext& context,
                                ParallelProduct product, TensorId x);
TensorId adapted_row_product(BlockBuilder& block, const MegatronContext& context,
                             const ParallelProduct& product, TensorId x);
/// linear_with_frozen_weight, or Transformer Engine's product with a weight that wants no gradient:
/// its input is not kept, but what LayerNormLinear answers of it.
TensorId frozen_product(BlockBuilder& block, const MegatronContext& context,
                        const ParallelProduct& product, TensorId x);

/// The products of a rank's experts with their rows.
struct ExpertProduct {
  std::string_view name;
  Expr in;
  Expr out;
  TensorId x = 0;
};
/// Adds to what experts' products have answered what their adapter makes, if there is one: that of
/// all experts of all ranks (share_expert_adapters).
TensorId adapted_experts(BlockBuilder& block, const MegatronContext& context,
                         const ExpertProduct& product, TensorId own);

/// The gradient of a product's input, where no ranks' partial sums are reduced. LayerNormLinear
/// adds to it what the adapter has sent back.
void give_input_gradient(BackwardWriter& backward, const MegatronContext& context,
                         const ParallelProduct& product, TensorId x);

/// Why the model's adapter has no graph, or nothing.
std::optional<Unavailable> adapter_refusal(const ModelSpec& model, const LoweringPolicy& policy);

}  // namespace memest
