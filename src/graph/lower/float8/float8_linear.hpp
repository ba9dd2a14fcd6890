// torchao's Float8Linear in place of torch.nn.Linear.
#pragma once

#include <optional>
#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// No part of a layer, which alone is compiled and has parallel styles of its own.
inline constexpr std::string_view kHeadProjection = "lm_head";

/// Whether the job has this projection replaced: its sizes are multiples of 16, and no filter names
/// its module.
[[nodiscard]] bool runs_in_float8(const DecoderContext& context, const Projection2d& shape);

TensorId float8_linear(BlockBuilder& block, const DecoderContext& context,
                       const Projection2d& shape, const Rows& rows);

/// Why the model's linear layers cannot be followed in float8; none where they can.
[[nodiscard]] std::optional<Unavailable> float8_refusal(const DecoderContext& context);

}  // namespace memest
