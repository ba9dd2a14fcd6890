// How many tokens an expert takes: get_capacity (moe_utils.py), or its share of all pairs of a
// token and an expert.
#include <cmath>

#include "graph/lower/megatron/megatron.hpp"
#include "memest/units/int128.hpp"

namespace memest {

Expr rows_of_expert(const MegatronContext& context) {
  const MixtureOfExperts& experts = *context.experts;
  const bool pads = experts.capacity_factor > 0;
  const double factor = pads ? experts.capacity_factor : experts.imbalance;
  const std::int64_t shards = context.sequence ? context.policy.tensor : 1;
  const std::int64_t pairs = checked_multiply(
      checked_multiply(context.policy.micro_batch, context.policy.seq_len) / shards, experts.top_k);
  const std::int64_t ranks = context.policy.expert;
  // math.ceil((num_tokens / num_experts) * capacity_factor), where num_tokens counts tokens times
  // topk: 4096 tokens, top 2 of 8, factor 1.25 give 1280 rows an expert.
  const double mean = static_cast<double>(pairs) / static_cast<double>(experts.experts);
  const auto rounded_up = [](double count) {
    return static_cast<std::int64_t>(std::llround(std::ceil(count)));
  };
  // Rounds the rows of every rank alike, or those of all together.
  const std::int64_t rows = pads ? checked_multiply(ranks, rounded_up(mean * factor))
                                 : rounded_up(mean * factor * static_cast<double>(ranks));
  // A formula of b and s where nothing is rounded.
  constexpr std::int64_t kParts = 1'000'000;
  const Rational exact(std::llround(factor * static_cast<double>(kParts)), kParts);
  const Expr formula = Expr(exact) * context.routed_tokens() * Expr(Symbol::top_k) *
                       Expr(Symbol::expert) / Expr(Symbol::experts);
  Bindings sizes;
  bind_tokens(sizes, context.policy.micro_batch, context.policy.seq_len);
  sizes.set(Symbol::top_k, experts.top_k)
      .set(Symbol::experts, experts.experts)
      .set(Symbol::tensor, context.policy.tensor)
      .set(Symbol::expert, ranks);
  const Expr whole = formula * Expr(kParts);
  return whole.evaluate(sizes) == Int128{rows} * Int128{kParts} ? formula : Expr(rows);
}

}  // namespace memest
