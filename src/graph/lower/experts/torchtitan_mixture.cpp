// torchtitan 0.2.2's mixture of experts (models/moe/moe.py, MoE.forward; kernels.py and utils.py
// beside it), as its Qwen3 has it: softmax, weights over their sum, experts' outputs weighted.
#include "graph/lower/experts/torchtitan_mixture.hpp"

#include <string_view>
#include <utility>

#include "graph/lower/ops/tensor_parallel.hpp"

namespace memest {
namespace {

/// Pairs of a token and one of its experts, by expert.
struct PairsByExpert {
  TensorId counts = 0;  ///< of each expert
  TensorId order = 0;   ///< of the pairs
};

class MixtureWriter {
 public:
  MixtureWriter(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part)
      : block_(block),
        context_(context),
        part_(part),
        h_(context.dims.h),
        tokens_(context.dims.b * context.dims.s),
        pairs_(tokens_ * Expr(Symbol::top_k)),
        own_pairs_(pairs_of_rank(context)) {}

  TensorId write(TensorId x) {
    const Shape given = block_.tensor(x).shape;
    Frame forward(block_);
    x = forward.local(view(block_, {"experts", "rows"}, x, {tokens_, h_}));
    RoutedChoice chosen;
    PairsByExpert sorted;
    {
      // The reorderer's counts take the name of the router's.
      Frame renaming(block_);
      chosen = route(x, renaming);
      sorted = sort(chosen, forward);
    }
    forward.local(sorted.counts);
    const TensorId routed = forward.local(routed_rows(x, sorted.order));
    const TensorId results =
        forward.local(torchtitan_experts(block_, context_, part_, {routed, sorted.counts}));
    const DType dtype = block_.dtype_of(x);
    const TensorId zeros =
        made(block_, {{"experts", "zeros by pair"}, {pairs_, h_}, dtype}, {results});
    const TensorId by_pair = forward.local(
        put_rows(block_, {{"experts", "by pair"}, zeros, {.x = results, .indices = sorted.order}}));
    const Shape of_token = {tokens_, Expr(Symbol::top_k), h_};
    const TensorId seen = view(block_, {"experts", "by token"}, by_pair, of_token);
    const TensorId wide = cast(block_, {"experts", "by token in fp32"}, seen, DType::fp32);
    const TensorId sum = weighted_sum(chosen.weights, wide);
    const TensorId out = cast(block_, {"experts", "in type"}, sum, dtype);
    return view(block_, {"experts", "by sequence"}, out, given);
  }

 private:
  /// TokenChoiceTopKRouter.forward, which answers how many tokens each expert has, too.
  RoutedChoice route(TensorId x, Frame& renaming) {
    Frame function(block_);
    RoutedChoice chosen;
    const Projection2d gate = {kRouterProduct, h_, experts_};
    chosen.logits = linear(block_, gate, {{tokens_}, x});
    const TensorId scores = [&] {
      Frame naming(block_);
      naming.local(chosen.logits);
      const TensorId wide = cast(block_, {"router_softmax", "in fp32"}, chosen.logits, DType::fp32);
      return softmax(block_, "router_softmax", wide, DType::fp32);
    }();
    // expert_bias is a buffer, there unless load_balance_coeff is none; it counts for the choice.
    const TensorId biased =
        made(block_, {{"choice", "scores"}, {tokens_, experts_}, DType::fp32}, {scores});
    const Shape each = of_choices(part_, tokens_);
    const Pair best = pair_of(block_, {{"top_k", "scores"}, each, DType::fp32},
                              {{"top_k", "indices"}, each, DType::int64}, biased);
    chosen.indices = best.second;
    const TensorId values = moved(block_, {{"router_weights", "chosen"}, each, DType::fp32},
                                  {scores, chosen.indices, Indexing::gather});
    // route_norm
    const TensorId shares =
        part_.weights_over_sum ? over_guarded_sum(block_, values, function) : values;
    chosen.weights = function.local(scale(block_, {"router_weights", "scaled"}, shares));
    for (const TensorId local : {scores, biased, best.first, best.second}) function.local(local);
    renaming.local(counts_of("router_counts", chosen.indices));
    return chosen;
  }

  /// torch.histc of int64.
  TensorId counts_of(std::string_view name, TensorId indices) {
    return made(block_, {{name}, {experts_}, DType::int64}, {indices});
  }

  /// TokenReorderer.forward. It reads the weights by expert, which nothing here does.
  PairsByExpert sort(const RoutedChoice& chosen, Frame& caller) {
    Frame function(block_);
    PairsByExpert sorted;
    sorted.counts = function.local(counts_of("pairs", chosen.indices));
    sorted.order = function.local(sorted_by_expert(block_, own_pairs_, chosen.indices).second);
    const Shape of_pairs = {own_pairs_};
    const TensorId by_expert =
        made(block_, {{"pairs", "weights"}, of_pairs, DType::fp32}, {chosen.weights, sorted.order});
    for (const TensorId local : {chosen.weights, chosen.indices, by_expert, sorted.order}) {
      caller.local(local);
    }
    // ReordererSequenceParallel._prepare_output_fn: the rank's place among all tokens is added. The
    // graph of the weights by expert keeps what it is added to.
    if (own_pairs_ != pairs_) {
      block_.tensor(sorted.order).held_by_graph = true;
      sorted.order = caller.local(
          made(block_, {{"pairs", "order in all"}, of_pairs, DType::int64}, {sorted.order}));
    }
    return sorted;
  }

  /// x[token_indices_experts_sorted // top_k]
  TensorId routed_rows(TensorId x, TensorId order) {
    const TensorId tokens = made(block_, {{"pairs", "token"}, {own_pairs_}, DType::int64}, {order});
    const Made rows = {{"pairs", "tokens"}, {own_pairs_, h_}, block_.dtype_of(x)};
    return rows_at(block_, rows, {own_pairs_, tokens_}, {x, tokens});
  }

  /// torch.bmm of [tokens, 1, K] and [tokens, K, h] in fp32.
  TensorId weighted_sum(TensorId weights, TensorId rows) {
    const TensorId row_of_weights =
        view(block_, {"experts", "weights"}, weights, {tokens_, Expr(1), Expr(Symbol::top_k)});
    const TensorId out =
        block_.make({"experts", "weighted sum"}, {tokens_, Expr(1), h_}, DType::fp32);
    Op op;
    op.kind = OpKind::batched_matmul;
    op.name = "experts";
    op.compute = DType::fp32;
    op.inputs = {row_of_weights, rows};
    op.outputs = {out};
    op.saved = {rows, row_of_weights};
    op.workspace = Workspace::cublas;
    BackwardWriter backward(op);
    // BmmBackward0 works through mat2 and then self, and answers self's first.
    const auto of_rows = backward.make(rows, DType::fp32);
    backward.give(row_of_weights, backward.make(row_of_weights, DType::fp32));
    backward.give(rows, of_rows);
    const Expr flops = Expr(2) * pairs_ * h_;
    block_.emit(std::move(op), {flops, Expr(2) * flops});
    return out;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const MixtureOfExperts& part_;
  const Expr experts_ = Symbol::experts;
  Expr h_;
  Expr tokens_;
  Expr pairs_;
  Expr own_pairs_;  ///< that the rank sends to experts
};

}  // namespace

TensorId torchtitan_mixture(BlockBuilder& block, const DecoderContext& context,
                            const MixtureOfExperts& part, TensorId x) {
  // PrepareModuleInputOutput of apply_moe_ep_tp: each rank routes all tokens, by a router that is
  // whole on each, and has a part of every expert, whose outputs are summed.
  Frame call(block);
  if (context.shards_tensors()) call.local(x);
  const TensorId whole = gathered_alike(block, context, "feed_forward_norm", x);
  // The module's call holds its arguments while its hook scatters.
  if (context.shards_tensors()) call.local(whole);
  const TensorId out = MixtureWriter(block, context, part).write(whole);
  return scattered(block, context, "feed_forward_shard", out);
}

}  // namespace memest
