// Which experts a token goes to (TopKRouter).
#pragma once

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/ops/indexing.hpp"

namespace memest {

/// The routing of [tokens, experts]: each pair's weight, zero if not chosen, and the chosen ones.
struct RoutedTokens {
  TensorId probabilities = 0;
  TensorId map = 0;
};
/// TopKRouter.forward, and the padding of experts to their capacity.
RoutedTokens route_tokens(BlockBuilder& block, const MegatronContext& context, TensorId x);

}  // namespace memest
