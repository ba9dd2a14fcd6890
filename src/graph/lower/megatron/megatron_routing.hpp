// Which experts a token goes to (TopKRouter), and how it gets there by DeepEP's Hybrid-EP (the flex
// dispatcher, --moe-flex-dispatcher-backend hybridep).
#pragma once

#include <vector>

#include "graph/lower/megatron/megatron.hpp"
#include "graph/lower/ops/indexing.hpp"

namespace memest {

/// The routing of [tokens, experts]: each pair's weight, zero if not chosen, and the chosen ones.
struct RoutedTokens {
  TensorId probabilities = 0;
  TensorId map = 0;
};
/// TopKRouter.forward, and the padding of experts to their capacity: the dispatcher's attributes
/// then name what it answers.
RoutedTokens route_tokens(BlockBuilder& block, const MegatronContext& context, TensorId x);

/// _HybridEPManager.setup_metadata: the weights in fp32, which the dispatcher's attributes name.
RoutedTokens hybridep_metadata(BlockBuilder& block, RoutedTokens routed);

/// Rows of this rank's experts, sorted by expert, with a weight each.
struct DispatchedTokens {
  TensorId x = 0;  ///< which was dispatched
  TensorId tokens = 0;
  TensorId probabilities = 0;    ///< in fp32
  std::vector<TensorId> handle;  ///< which token went where, as the way back reads it
};
/// HybridEPDispatch.
DispatchedTokens hybridep_dispatch(BlockBuilder& block, const MegatronContext& context, TensorId x,
                                   const RoutedTokens& routed);
/// HybridEPCombine: sums of `rows` of the experts, of the shape that `x` had.
TensorId hybridep_combine(BlockBuilder& block, const MegatronContext& context,
                          const DispatchedTokens& dispatched, TensorId rows);

}  // namespace memest
