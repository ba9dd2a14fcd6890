// The parts of torchtitan 0.2.2's mixture of experts.
#pragma once

#include "graph/lower/experts/mixture.hpp"

namespace memest {

/// Rows of the pairs of a token and one of its experts, by expert, and how many each expert has.
struct PairsOfExperts {
  TensorId rows = 0;
  TensorId counts = 0;
};
/// Pairs that the rank sends to experts: tensor ranks that share whole ones have a part of the
/// tokens each (ReordererSequenceParallel).
[[nodiscard]] Expr pairs_of_rank(const DecoderContext& context);
/// GroupedExperts answers a row for each pair.
TensorId torchtitan_experts(BlockBuilder& block, const DecoderContext& context,
                            const MixtureOfExperts& part, const PairsOfExperts& pairs);

}  // namespace memest
