// Parts of the sequences, one after another, whose losses are summed.
#pragma once

#include <string_view>
#include <vector>

#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {

/// Tokens of each part of the sequences, of which there are eight, or fewer where the last ones
/// would have none.
std::vector<Expr> chunk_lengths(const DecoderContext& context);

/// x.flatten(0, 1) of rows of each sequence: a copy where there are several.
TensorId flattened(BlockBuilder& block, std::string_view name, TensorId chunk, bool copies);

/// total += loss: in place, but for the first one, which is added to a number. `total` has the sums
/// so far.
TensorId add_to_total(BlockBuilder& block, const std::vector<TensorId>& total, TensorId loss);

/// total / count, a tensor, which the division keeps.
TensorId over_count(BlockBuilder& block, std::string_view name, TensorId total, TensorId count);

}  // namespace memest
