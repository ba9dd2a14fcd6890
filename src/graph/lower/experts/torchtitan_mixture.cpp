// torchtitan 0.2.2's mixture of experts (models/moe/moe.py, MoE.forward; kernels.py and utils.py
// beside it), as its Qwen3 has it: softmax, weights over their sum, experts' outputs weighted.
#include <string_view>
#include <utility>

#include "graph/lower/experts/mixture.hpp"
#include "graph/lower/ops/course.hpp"
#include "graph/lower/ops/tensor_parallel.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Rows of each expert are filled up to a multiple of so many (TOKEN_GROUP_ALIGN_SIZE_M).
constexpr std::int64_t kRowsOfGroup = 8;

/// Pairs of a token and one of its experts, by expert.
struct PairsByExpert {
  TensorId counts = 0;  ///< of each expert
  TensorId order = 0;   ///< of the pairs
};

/// Where the filled-up rows come from, and what the products know of them.
struct FilledRows {
  TensorId rows = 0;
  TensorId sources = 0;  ///< indices of 32 bits; -1: a row of zeros
  TensorId counts = 0;   ///< of each expert, filled up
};

class MixtureWriter {
 public:
  MixtureWriter(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part)
      : block_(block),
        context_(context),
        part_(part),
        h_(context.dims.h),
        tokens_(context.dims.b * context.dims.s),
        pairs_(tokens_ * Expr(Symbol::top_k)) {
    const std::int64_t pairs = checked_multiply(
        checked_multiply(context.policy.micro_batch, context.policy.seq_len), part.top_k);
    // _permute: _round_up(x.shape[0] + num_local_experts * 8, 8): as if every expert's rows had to
    // be filled up.
    const std::int64_t odd = (kRowsOfGroup - pairs % kRowsOfGroup) % kRowsOfGroup;
    filled_ = pairs_ + Expr(kRowsOfGroup) * experts_ + Expr(odd);
    even_ = (pairs + odd) % part.experts == 0;
  }

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
    const TensorId results = forward.local(compute_experts(routed, sorted.counts));
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
    sorted.order = function.local(sorted_by_expert(block_, pairs_, chosen.indices).second);
    const TensorId by_expert =
        made(block_, {{"pairs", "weights"}, {pairs_}, DType::fp32}, {chosen.weights, sorted.order});
    for (const TensorId local : {chosen.weights, chosen.indices, by_expert, sorted.order}) {
      caller.local(local);
    }
    return sorted;
  }

  /// x[token_indices_experts_sorted // top_k]
  TensorId routed_rows(TensorId x, TensorId order) {
    const TensorId tokens = made(block_, {{"pairs", "token"}, {pairs_}, DType::int64}, {order});
    const Made rows = {{"pairs", "tokens"}, {pairs_, h_}, block_.dtype_of(x)};
    return rows_at(block_, rows, {pairs_, tokens_}, {x, tokens});
  }

  /// GroupedExperts.forward in indices_padding_wrapper.
  TensorId compute_experts(TensorId routed, TensorId counts) {
    Frame wrapper(block_);
    // TensorParallel._prepare_input_fn: to_local(grad_placements=(Partial(),)).
    if (context_.shards_tensors()) routed = summed_back(block_, "pairs_on_ranks", routed);
    const FilledRows filled = fill(routed, counts);
    for (const TensorId local : {filled.rows, filled.sources, filled.counts}) wrapper.local(local);
    const TensorId out = wrapper.local(run_experts(filled));
    return without_filling(out, filled.sources);
  }

  /// _permute
  FilledRows fill(TensorId routed, TensorId counts) {
    Frame function(block_);
    FilledRows filled = places_of(counts, function);
    const DType dtype = block_.dtype_of(routed);
    const TensorId zero = made(block_, {{"filling", "zeros"}, {h_}, dtype});
    const TensorId joined = concatenate(block_, {"filling", "rows and zeros"}, {{routed, zero}},
                                        {pairs_ + Expr(1), h_});
    filled.rows = rows_at(block_, {{"filling", "rows"}, {filled_, h_}, dtype},
                          {.count = filled_, .rows = pairs_ + Expr(1), .narrow = true},
                          {joined, filled.sources});
    return filled;
  }

  /// One number for each expert, of `from`.
  TensorId by_expert(std::string_view name, DType dtype, TensorId from) {
    return made(block_, {{"filling", name}, {experts_}, dtype}, {from});
  }

  [[nodiscard]] KernelLaunch scan_of(DType dtype) const {
    KernelLaunch scan;
    scan.kind = KernelLaunch::Kind::scan;
    scan.reduced = experts_;
    scan.dtype = dtype;
    return scan;
  }

  /// torch.cumsum in `dtype`, to which numbers of another type are cast first.
  TensorId running_sum(std::string_view name, DType dtype, TensorId from) {
    const TensorId out = block_.make({"filling", name}, {experts_}, dtype);
    Course course;
    const auto result = course.make(name, out, dtype);
    const bool casts = block_.dtype_of(from) != dtype;
    const auto wide = casts ? course.make("numbers to add up", out, dtype) : result;
    course.launch(scan_of(dtype));
    if (casts) course.drop(wide);
    Op op;
    op.kind = OpKind::reduce;
    op.name = "filling";
    op.inputs = {from};
    op.outputs = {out};
    std::move(course).write_forward(block_, op, {result});
    block_.emit(std::move(op));
    return out;
  }

  /// generate_permute_indices; `caller` names all that it answers.
  FilledRows places_of(TensorId counts, Frame& caller) {
    Frame function(block_);
    const TensorId starts = function.local(
        by_expert("first pairs", DType::int64, running_sum("last pairs", DType::int64, counts)));
    const TensorId totals = function.local(by_expert(
        "pairs or 8", DType::int64, by_expert("pairs of all ranks", DType::int64, counts)));
    // (total_tokens_per_expert + alignment - 1) // alignment * alignment
    TensorId groups = totals;
    for (const std::string_view step : {"pairs + 8", "pairs + 7", "groups", "rows"}) {
      groups = by_expert(step, DType::int64, groups);
    }
    FilledRows filled;
    filled.counts = function.local(by_expert("rows in int32", DType::int32, groups));
    const TensorId ends = function.local(running_sum("last rows", DType::int64, filled.counts));
    const TensorId first = function.local(by_expert("first rows", DType::int64, ends));
    filled.sources =
        function.local(made(block_, {{"filling", "sources"}, {filled_}, DType::int32}, {first}));
    for (const TensorId local : {starts, totals}) function.local(local);
    caller.local(by_expert("last rows in int32", DType::int32, ends));
    return filled;
  }

  /// _run_experts_grouped_mm
  TensorId run_experts(const FilledRows& filled) {
    Frame function(block_);
    const TensorId ends = function.local(running_sum("ends", DType::int32, filled.counts));
    const Expr f = context_.shards_tensors() ? Expr(Symbol::expert_ffn_size) / Symbol::tensor
                                             : Expr(Symbol::expert_ffn_size);
    const auto product = [&](std::string_view name, TensorId x, const Expr& out, const Expr& in) {
      return grouped_product(block_,
                             {.name = name,
                              .weight = block_.parameter({name, "weight"}, {experts_, out, in}),
                              .x = x,
                              .ends = ends,
                              .rows = filled_,
                              .even = even_});
    };
    const TensorId active = activation(block_, {"expert_activation", part_.activation},
                                       product("expert_gate_proj", filled.rows, f, h_));
    const TensorId up = product("expert_up_proj", filled.rows, f, h_);
    const TensorId hidden = function.local(multiply(block_, {"expert_gate_times_up"}, active, up));
    return product("expert_down_proj", hidden, h_, f);
  }

  /// _unpermute: out_unpermuted[permuted_indices, :] = out, but for the last row.
  TensorId without_filling(TensorId out, TensorId sources) {
    const Shape rows = {pairs_ + Expr(1), h_};
    const TensorId empty = made(block_, {{"experts", "empty rows"}, rows, block_.dtype_of(out)});
    const TensorId all = put_rows(
        block_, {{"experts", "rows of pairs"}, empty, {.x = out, .indices = sources}, true});
    return slice(block_, {"experts", "of pairs"}, all, {pairs_, h_});
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
  Expr filled_;  ///< rows that the products are called with
  bool even_ = false;
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
