// Parts of torchtune's TransformerDecoder that are written otherwise than in other programs.
#pragma once

#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// The name by which layers know the model's table of cosines and sines.
inline constexpr std::string_view kRotaryCache = "rotary cache";

/// [b, s, heads, d] turned by the model's table, neighbouring channels in fp32, one after the
/// other.
TensorId rotated_pairs(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                       TensorId x);

/// The final norm, of whose output the products with the output head and the losses are of one part
/// of the sequences after another (TransformerDecoder.chunked_output and
/// modules/loss/ce_chunked_output_loss.py, CEWithChunkedOutputLoss).
TensorId torchtune_head_and_loss(BlockBuilder& block, const DecoderContext& context, TensorId x);

}  // namespace memest
