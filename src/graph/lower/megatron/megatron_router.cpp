#include <string_view>
#include <utility>

#include "graph/lower/megatron/megatron_routing.hpp"

namespace memest {
namespace {

class Router {
 public:
  Router(BlockBuilder& block, const MegatronContext& context)
      : block_(block),
        context_(context),
        experts_(*context.experts),
        tokens_(context.routed_tokens()) {}

  /// TopKRouter.forward.
  RoutedTokens route(TensorId x) {
    RoutedTokens routed;
    {
      Frame forward(block_);
      const TensorId logits = parallel_product(block_, context_,
                                               {.name = "router",
                                                .in = context_.h,
                                                .out = Symbol::experts,
                                                .bias = experts_.router_bias,
                                                .rows = {tokens_}},
                                               x);
      routed = choose(logits);
      if (experts_.capacity_factor > 0) {
        for (const TensorId local : {routed.probabilities, routed.map}) forward.local(local);
        routed = fill_capacity(routed);
      }
      forward.local(logits);
    }
    return routed;
  }

 private:
  [[nodiscard]] Shape by_expert() const { return {tokens_, Expr(Symbol::experts)}; }

  struct Chosen {
    TensorId weights = 0;
    TensorId indices = 0;
  };

  [[nodiscard]] Shape by_choice() const { return {tokens_, Expr(Symbol::top_k)}; }

  /// The softmax, in fp32, is over the chosen scores alone.
  /// moe_router_pre_softmax is False by default: topk first,
  /// softmax(dtype=torch.float32).type_as(logits) of the chosen.
  Chosen choose_by_softmax(Frame& function, TensorId logits) {
    const DType dtype = block_.dtype_of(logits);
    const auto [scores, indices] =
        taken_of(block_, {{"top_k", "scores"}, by_choice(), dtype},
                 {{"top_k", "indices"}, by_choice(), DType::int64}, logits);
    function.local(scores);
    const TensorId weights = cast(block_, {"router_softmax", "in type"},
                                  softmax(block_, "router_softmax", scores, DType::fp32), dtype);
    return {weights, indices};
  }

  /// Sigmoids in fp32; with a bias each, which no gradient passes, they decide which experts.
  Chosen choose_by_sigmoid(Frame& function, TensorId logits) {
    constexpr std::string_view kScores = "router_sigmoid";
    const DType dtype = block_.dtype_of(logits);
    const TensorId wide = cast(block_, {kScores, "in fp32"}, logits, DType::fp32);
    const TensorId all = cast(block_, {kScores, "in type"},
                              memest::function(block_, {kScores}, Keeps::result, wide), dtype);
    const TensorId biased =
        function.local(made(block_, {{kScores, "with bias"}, by_expert(), DType::fp32}, {all}));
    const Pair best = pair_of(block_, {{"top_k", "scores"}, by_choice(), DType::fp32},
                              {{"top_k", "indices"}, by_choice(), DType::int64}, biased);
    function.local(best.first);
    const TensorId scores =
        function.local(moved(block_, {{"top_k", "own scores"}, by_choice(), dtype},
                             {all, best.second, Indexing::gather}));
    return {scale(block_, {"router_weights", "scaled"}, over_sum(scores)), best.second};
  }

  /// scores / (Σ scores + 1e-20)
  TensorId over_sum(TensorId scores) {
    constexpr std::string_view kName = "router_weights";
    const DType dtype = block_.dtype_of(scores);
    // probs = scores / (scores.sum(dim=-1, keepdim=True) + 1e-20).
    const TensorId sum =
        add_number(block_, {kName, "sum, not zero"}, mean_of_rows(block_, {kName, "sum"}, scores));
    const TensorId out = block_.make({kName}, by_choice(), dtype);
    Op op;
    op.kind = OpKind::multiply;
    op.name = kName;
    op.inputs = {scores, sum};
    op.outputs = {out};
    op.saved = {scores, sum};
    BackwardWriter backward(op);
    const auto of_scores = backward.make(out, dtype);
    const auto of_sum = backward.make(out, dtype);
    give_settled(block_, backward, scores, of_scores);
    give_settled(block_, backward, sum, of_sum);
    block_.emit(std::move(op));
    return out;
  }

  /// topk_routing_with_score_function
  RoutedTokens choose(TensorId logits) {
    const DType dtype = block_.dtype_of(logits);
    Frame function(block_);
    const auto [weights, indices] = experts_.correction_bias_buffer
                                        ? choose_by_sigmoid(function, logits)
                                        : choose_by_softmax(function, logits);
    for (const TensorId local : {weights, indices}) function.local(local);
    RoutedTokens routed;
    {
      Frame scatter(block_);
      // torch.zeros_like(logits).scatter(1, top_indices, probs) is out of place: zeros and result,
      // and the map likewise by way of .int().
      scatter.local(made(block_, {{"routing", "zeros"}, by_expert(), dtype}));
      routed.probabilities =
          moved(block_, {{"routing", "probabilities"}, by_expert(), dtype}, {weights, indices});
    }
    const TensorId zeros = made(block_, {{"routing", "no expert"}, by_expert(), dtype});
    const TensorId numbers =
        made(block_, {{"routing", "no expert in int32"}, by_expert(), DType::int32}, {zeros});
    const TensorId ones =
        made(block_, {{"routing", "own experts"}, by_expert(), DType::int32}, {numbers, indices});
    routed.map = made(block_, {{"routing", "map"}, by_expert(), DType::boolean}, {ones});
    return routed;
  }

  /// apply_router_token_dropping, padding experts to their capacity.
  RoutedTokens fill_capacity(const RoutedTokens& routed) {
    const DType dtype = block_.dtype_of(routed.probabilities);
    Frame function(block_);
    const Expr of_source = rows_of_expert(context_) / Expr(Symbol::expert);
    const Shape chosen = {of_source, Expr(Symbol::experts)};
    const Pair best =
        pair_of(block_, {{"capacity", "probabilities"}, chosen, dtype},
                {{"capacity", "indices"}, chosen, DType::int64}, routed.probabilities);
    for (const TensorId local : {best.first, best.second}) function.local(local);
    const TensorId zeros = made(block_, {{"capacity", "zeros"}, by_expert(), dtype});
    const TensorId ones =
        made(block_, {{"capacity", "ones"}, by_expert(), dtype}, {zeros, best.second});
    RoutedTokens filled;
    filled.map = made(block_, {{"capacity", "mask"}, by_expert(), DType::boolean}, {ones});
    filled.probabilities = moved(block_, {{"capacity", "probabilities within"}, by_expert(), dtype},
                                 {routed.probabilities, filled.map});
    return filled;
  }

  BlockBuilder& block_;
  const MegatronContext& context_;
  const MixtureOfExperts& experts_;
  Expr tokens_;
};

}  // namespace

RoutedTokens route_tokens(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  return Router(block, context).route(x);
}

}  // namespace memest
