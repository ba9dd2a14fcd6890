// Linear layers whose frozen weights are codes: bitsandbytes' Linear4bit and HQQ's HQQLinear in
// place of torch.nn.Linear.
#pragma once

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// `shape`'s product with a weight that is kept as codes.
TensorId quantized_linear(BlockBuilder& block, const DecoderContext& context,
                          const Projection2d& shape, const Rows& rows);

/// Why the model cannot be followed with such weights; none where it can.
[[nodiscard]] std::optional<Unavailable> quantized_refusal(const DecoderContext& context);

}  // namespace memest
