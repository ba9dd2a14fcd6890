// A mixture of experts as transformers 5.17 writes it: a router's choice, and the experts that
// integrations/moe.py computes in grouped products (its default). No size depends on the routing.
#pragma once

#include "decoder_context.hpp"
#include "indexing.hpp"

namespace memest {

/// Of b·s tokens: how much each of its experts counts for a token, and which they are.
struct RoutedChoice {
  TensorId logits = 0;
  TensorId weights = 0;
  TensorId indices = 0;
};
/// The model's router (modeling_mixtral.py, MixtralTopKRouter; others' likewise).
RoutedChoice route(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part,
                   TensorId x);

}  // namespace memest
