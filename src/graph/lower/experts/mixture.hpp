// A mixture of experts as transformers 5.17 writes it: a router's choice, and the experts that
// integrations/moe.py computes in grouped products (its default). No size depends on the routing.
#pragma once

#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/indexing.hpp"

namespace memest {

/// The routing of b·s tokens: each chosen expert's weight for a token, and its index.
struct RoutedChoice {
  TensorId logits = 0;
  TensorId weights = 0;
  TensorId indices = 0;
};
/// The model's router (modeling_mixtral.py, MixtralTopKRouter; others' likewise).
RoutedChoice route(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part,
                   TensorId x);
/// DeepSeek's, which may look for a token's experts in its best groups alone.
RoutedChoice route_by_groups(BlockBuilder& block, const DecoderContext& context,
                             const MixtureOfExperts& part, TensorId x);

/// One number for each expert of a token: a single one is summed and broadcast without a kernel.
Shape of_choices(const MixtureOfExperts& part, const Expr& tokens);
/// topk of `scores` [tokens, experts]: how much a token's best experts count, and which they are.
/// Its backward puts the gradients into zeros.
Pair best_of(BlockBuilder& block, const MixtureOfExperts& part, TensorId scores);
/// values /= values.sum(-1), or with `guarded` values.sum(-1) + a number, in place: of what was
/// there before the backward has a copy. `denominator` names the sum.
enum class Denominator { sum, guarded };
TensorId over_sum(BlockBuilder& block, TensorId values, Denominator denominator, Frame& naming);

/// values / (values.sum(-1) + a number), out of place: keeps both.
TensorId over_guarded_sum(BlockBuilder& block, TensorId values, Frame& naming);

/// torch.sort of the chosen experts of `pairs` pairs: the experts, and the order of the pairs.
Pair sorted_by_expert(BlockBuilder& block, const Expr& pairs, TensorId indices);

/// torch._grouped_mm: rows in the order of their experts, with each expert's own matrix.
struct ProductByExpert {
  std::string_view name;
  TensorId weight = 0;  ///< [experts, out, in]
  TensorId x = 0;       ///< in the weight's type
  TensorId ends = 0;    ///< of each expert's rows
  Expr rows;            ///< of all
  Expr experts = Symbol::experts;
  bool even = false;  ///< they are priced as those of equal experts
};
TensorId grouped_product(BlockBuilder& block, const ProductByExpert& part);

}  // namespace memest
