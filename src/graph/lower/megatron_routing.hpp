// Which experts a token goes to (TopKRouter), and what routing and dispatching are written with.
#pragma once

#include <vector>

#include "megatron.hpp"

namespace memest {

/// A tensor without gradient that depends on `inputs`.
TensorId made(BlockBuilder& block, const Made& result, const std::vector<TensorId>& inputs = {});

/// The same with a second result, which comes after.
struct Pair {
  TensorId first = 0;
  TensorId second = 0;
};
Pair pair_of(BlockBuilder& block, const Made& first, const Made& second, TensorId x);

/// `x` in another form, read at `indices`, which are kept: its gradient is a tensor like it, seen
/// in its own shape where `x` was. gather keeps `x` too, whose sizes its backward asks for.
enum class Reading { others, gather };
TensorId moved(BlockBuilder& block, const Made& result, TensorId x, TensorId indices,
               Reading reading = Reading::others);

/// Of [tokens, experts]: what each pair weighs, zero where it was not chosen, and which were.
struct RoutedTokens {
  TensorId probabilities = 0;
  TensorId map = 0;
};
/// TopKRouter.forward, and the padding of experts to their capacity.
RoutedTokens route_tokens(BlockBuilder& block, const MegatronContext& context, TensorId x);

}  // namespace memest
