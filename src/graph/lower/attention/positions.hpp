// Tensors that a model makes of the batch's shape before its layers: position ids, the test for
// packed sequences, masks, and the tables of cosines and sines. None has a gradient.
#pragma once

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// Angles that layers of a traced model compute cosines and sines from.
inline constexpr std::string_view kRotaryAngles = "rotary angles";

/// arange over the last dimension of `shape` + an offset, int64.
TensorId counted(BlockBuilder& block, std::string_view op, const Shape& shape);

/// Position ids of [1, s], known to the model's end.
TensorId position_ids(BlockBuilder& block, const DecoderContext& context);

/// Position ids of [b, s], counted along a mask of ones, which is known to the model's end too.
TensorId positions_of_mask(BlockBuilder& block, const DecoderContext& context);

/// ALiBi's biases, known to the model's end as "alibi".
void alibi_table(BlockBuilder& block, const DecoderContext& context);
/// ALiBi's biases of every query, filled where `mask` hides the keys: "alibi mask".
void alibi_mask(BlockBuilder& block, const DecoderContext& context, TensorId mask);

/// A mask of ones by tokens, known to the model's end; and sums along the rows of such a mask,
/// int64 of integers.
TensorId mask_of_ones(BlockBuilder& block, const DecoderContext& context, DType dtype);
TensorId running_sum(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                     TensorId x);

/// The test of a mask for ones only.
void find_padding(BlockBuilder& block, const DecoderContext& context, TensorId wanted);

/// For each kind of layer the test for packed sequences or padding, and the mask that its
/// attention takes, if any.
void attention_masks(BlockBuilder& block, const DecoderContext& context, TensorId ids);

/// The tables of cosines and sines of the positions, in the type of the residual stream unless the
/// model keeps them in fp32.
void rotary_tables(BlockBuilder& block, const DecoderContext& context, TensorId ids,
                   const Expr& channels);
/// DeepSeek V2's: one complex number for every two channels, in fp32.
void complex_rotary_table(BlockBuilder& block, const DecoderContext& context, TensorId ids,
                          const Expr& channels);

}  // namespace memest
