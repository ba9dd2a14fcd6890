// Parts of torchtune's TransformerDecoder that are written otherwise than in other programs.
#pragma once

#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// The name by which layers know the model's table of cosines and sines.
inline constexpr std::string_view kRotaryCache = "rotary cache";

/// Whether qwen2's builder makes the attention: it alone has biases of queries, keys and values.
inline bool is_of_qwen2(const SoftmaxAttention& attention) { return attention.q_bias; }

/// [b, s, heads, d] turned by the model's table.
TensorId rotated_by_table(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                          TensorId x);

/// The final norm, of whose output the products with the output head and the losses are of one part
/// of the sequences after another (TransformerDecoder.chunked_output and
/// modules/loss/ce_chunked_output_loss.py, CEWithChunkedOutputLoss).
TensorId torchtune_head_and_loss(BlockBuilder& block, const DecoderContext& context, TensorId x);

}  // namespace memest
