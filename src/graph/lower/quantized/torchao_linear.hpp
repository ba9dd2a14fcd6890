// torchao's NF4Tensor, which torchtune's LoRALinear and FrozenNF4Linear have for a weight.
#pragma once

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// `shape`'s product with a weight that is kept as an NF4Tensor.
TensorId torchao_linear(BlockBuilder& block, const DecoderContext& context,
                        const Projection2d& shape, const Rows& rows);

/// The weight of such a product, made from its codes by itself: weight.to(dtype).
TensorId torchao_weight(BlockBuilder& block, const DecoderContext& context,
                        const Projection2d& shape);

}  // namespace memest
