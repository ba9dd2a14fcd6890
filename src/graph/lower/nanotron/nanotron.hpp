// nanotron's LlamaForTraining (src/nanotron/models/llama.py) as a rank has it. Streams are [s, b,
// h]; attention is flash-attn's over all sequences as one. Linear layers are functions of its own
// (parallel/tensor_parallel/functional.py), which Megatron-core's were the pattern of: sizes under
// tensor parallelism are one rank's, as in MegatronContext.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/ops/block_builder.hpp"
#include "memest/graph/lower.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Whether linear layers communicate beside their products (tp_linear_async_communication): in the
/// mode REDUCE_SCATTER, which is a single rank's as well.
[[nodiscard]] bool communicates_beside(const MegatronContext& context);

/// Whether tokens of several sequences lie by position, so that to lie by sequence is a copy.
[[nodiscard]] bool interleaves(const MegatronContext& context);

/// flash-attn's Triton kernel (ops/triton/layer_norm.py): keeps x and 1/rms of its rows.
TensorId triton_norm(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                     TensorId x);
/// TensorParallelColumnLinear.
TensorId column_linear(BlockBuilder& block, const MegatronContext& context, ParallelProduct product,
                       TensorId x);

Block nanotron_embedding(const MegatronContext& context);
Block nanotron_layer(const MegatronContext& context);
/// The final norm, the output head and the logits in fp32. `ties`: it reads the embedding's weight.
Block nanotron_head(const MegatronContext& context, bool ties);
/// sharded_cross_entropy: answers the losses of all tokens.
Block nanotron_loss(const MegatronContext& context);

/// The graph of a rank, or why there is none.
std::variant<Graph, Unavailable> lower_llama_of_nanotron(const ModelSpec& model,
                                                         const LoweringPolicy& policy);

}  // namespace memest
