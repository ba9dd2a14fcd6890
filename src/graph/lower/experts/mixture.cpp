#include "graph/lower/experts/mixture.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// Rows in the order of their experts, and what the grouped products read.
struct SortedPairs {
  TensorId order = 0;
  TensorId experts = 0;
  std::optional<TensorId> bias = {};  ///< of the first product, by pair
  TensorId tokens = 0;
  TensorId weights = 0;
  TensorId ends = 0;    ///< of each expert's rows
  TensorId beyond = 0;  ///< rows of no expert: none here
};

/// grouped_mm_experts_forward: pairs of a token and one of its experts, sorted by expert.
class ExpertsWriter {
 public:
  ExpertsWriter(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part)
      : block_(block),
        context_(context),
        part_(part),
        tokens_(context.dims.b * context.dims.s),
        pairs_(tokens_ * Expr(Symbol::top_k)),
        batched_(divides_evenly()) {}

  TensorId write(TensorId x, const RoutedChoice& chosen) {
    Frame function(block_);
    for (const TensorId argument : {x, chosen.weights, chosen.indices}) function.local(argument);
    const SortedPairs sorted = sort(function, x, chosen);
    std::optional<TensorId> bias = sorted.bias;
    TensorId hidden = 0;
    {
      Frame renamed(block_);
      if (bias) renamed.local(*bias);
      hidden =
          added(product("gate_up_proj", sorted.tokens, sorted, {Expr(2) * size(), context_.dims.h}),
                bias);
      hidden = masked({"experts", "gate and up"}, hidden, sorted.beyond);
      hidden = context_.habits.clamps_experts ? clamped(hidden) : gated(hidden);
      if (part_.expert_bias) bias = function.local(bias_of("down_bias", context_.dims.h, sorted));
    }
    hidden = added(product("down_proj", hidden, sorted, {context_.dims.h, size()}), bias);
    hidden = masked({"experts", "out"}, hidden, sorted.beyond);
    function.local(hidden);
    // proj_out * sample_weights_g.unsqueeze(-1): fp32 weights (Mixtral's, DeepSeek's) make bf16
    // rows fp32: 8192 tokens of 2 experts and 4096 channels are 268 MB.
    const TensorId weighted = multiply(block_, {"experts", "weighted"}, hidden, sorted.weights);
    const TensorId places = function.local(places_of(sorted.order));
    const Made back = {
        {"experts", "by token"}, {pairs_, context_.dims.h}, block_.dtype_of(weighted)};
    const TensorId by_token =
        function.local(rows_at(block_, back, {pairs_, pairs_}, {weighted, places}));
    const TensorId sum = function.local(sum_of_experts(by_token));
    return cast(block_, {"experts", "in type"}, sum, block_.dtype_of(x));
  }

 private:
  [[nodiscard]] static Expr size() { return Symbol::expert_ffn_size; }

  /// Whether the rows can be priced as those of equal experts.
  [[nodiscard]] bool divides_evenly() const {
    const std::int64_t tokens =
        checked_multiply(context_.policy.micro_batch, context_.policy.seq_len);
    return checked_multiply(tokens, part_.top_k) % part_.experts == 0;
  }

  SortedPairs sort(Frame& function, TensorId x, const RoutedChoice& chosen) {
    SortedPairs sorted;
    const TensorId experts = function.local(sort_experts(function, sorted, chosen.indices));
    sorted.experts = experts;
    sorted.tokens = [&] {
      const TensorId tokens =
          made(block_, {{"pairs", "token"}, {pairs_}, DType::int64}, {sorted.order});
      const Made rows = {{"pairs", "tokens"}, {pairs_, context_.dims.h}, block_.dtype_of(x)};
      return rows_at(block_, rows, {pairs_, tokens_}, {x, tokens});
    }();
    const Made weights = {{"pairs", "weights"}, {pairs_, Expr(1)}, block_.dtype_of(chosen.weights)};
    sorted.weights =
        function.local(rows_at(block_, weights, {pairs_, pairs_}, {chosen.weights, sorted.order}));
    // torch.histc of expert_ids_g.int(), then cumsum(dtype=torch.int32): grouped_mm takes offsets
    // of 32 bits.
    const TensorId narrow = function.local(
        made(block_, {{"pairs", "experts in int32"}, {pairs_}, DType::int32}, {experts}));
    const Shape each = {Expr(Symbol::experts)};
    const TensorId counts =
        function.local(made(block_, {{"pairs", "counts"}, each, DType::int32}, {narrow}));
    sorted.ends = function.local(running_sum(counts));
    sorted.beyond = function.local(
        made(block_, {{"pairs", "of no expert"}, {pairs_, Expr(1)}, DType::boolean}, {experts}));
    if (part_.expert_bias) sorted.bias = bias_of("gate_up_bias", Expr(2) * size(), sorted);
    sorted.tokens = function.local(masked_in_place(sorted.tokens, sorted.beyond));
    return sorted;
  }

  /// Answers the sorted experts, and puts their order into `sorted`.
  TensorId sort_experts(Frame& function, SortedPairs& sorted, TensorId indices) {
    const Pair pairs = sorted_by_expert(block_, pairs_, indices);
    sorted.order = function.local(pairs.second);
    return pairs.first;
  }

  TensorId running_sum(TensorId counts) {
    const TensorId ends = block_.make({"pairs", "ends"}, {Expr(Symbol::experts)}, DType::int32);
    Op op;
    op.kind = OpKind::reduce;
    op.name = "pairs";
    op.inputs = {counts};
    op.outputs = {ends};
    KernelLaunch scan;
    scan.kind = KernelLaunch::Kind::scan;
    scan.reduced = Symbol::experts;
    scan.dtype = DType::int32;
    op.forward_launches = {std::move(scan)};
    block_.emit(std::move(op));
    return ends;
  }

  struct Sides {
    Expr out;
    Expr in;
  };

  /// grouped_mm of the rows with all experts' weights, in the weights' type.
  TensorId product(std::string_view name, TensorId x, const SortedPairs& sorted,
                   const Sides& sides) {
    const Expr experts = Symbol::experts;
    const TensorId weight = block_.parameter({"experts", name}, {experts, sides.out, sides.in});
    const DType dtype = block_.dtype_of(weight);
    // _grouped_mm is not on autocast's list: transformers casts the input to the weights' type
    // itself.
    const TensorId input = cast(block_, {name, "in type"}, x, dtype);
    return grouped_product(block_, {.name = name,
                                    .weight = weight,
                                    .x = input,
                                    .ends = sorted.ends,
                                    .rows = pairs_,
                                    .even = batched_});
  }

  /// Emits a masked_fill: a clone that masked_fill_ writes into (aten/src/ATen/native/
  /// TensorAdvancedIndexing.cpp), in the backward as well.
  void emit_mask(Op op) {
    const Expr cloned = Expr(2) * block_.tensor(op.inputs.front()).bytes();
    const bool in_place = block_.tensor(op.outputs.front()).storage != op.outputs.front();
    block_.emit(std::move(op));
    Op& emitted = block_.ops().back();
    if (!in_place) emitted.forward.bytes += cloned;
    if (!emitted.backward.bytes.is_zero()) emitted.backward.bytes += cloned;
  }

  Op mask_of(std::string_view name, TensorId x, TensorId out, TensorId mask) {
    Op op;
    op.kind = OpKind::mask;
    op.name = name;
    op.inputs = {x, mask};
    op.outputs = {out};
    op.saved = {mask};
    BackwardWriter backward(op);
    backward.give(x, backward.make(x, block_.dtype_of(x)));
    return op;
  }

  /// Rows of no expert are set to zero.
  TensorId masked(Place place, TensorId x, TensorId mask) {
    const Expr width = block_.tensor(x).shape.back();
    const TensorId out = block_.make(place, {pairs_, width}, block_.dtype_of(x));
    emit_mask(mask_of(place.op, x, out, mask));
    return out;
  }

  TensorId masked_in_place(TensorId x, TensorId mask) {
    const TensorId out = block_.alias({"pairs", "masked tokens"}, x, block_.tensor(x).shape);
    emit_mask(mask_of("pairs", x, out, mask));
    return out;
  }

  /// Each row's own, of its expert.
  TensorId bias_of(std::string_view name, const Expr& width, const SortedPairs& sorted) {
    const TensorId bias = block_.parameter({name, "weight"}, {Symbol::experts, width});
    const Made rows = {{name, "by pair"}, {pairs_, width}, block_.dtype_of(bias)};
    return rows_at(block_, rows, {pairs_, Symbol::experts}, {bias, sorted.experts});
  }

  TensorId added(TensorId x, std::optional<TensorId> bias) {
    if (!bias) return x;
    const TensorId out =
        block_.alias({block_.tensor(x).op, "with bias"}, x, block_.tensor(x).shape);
    Op op;
    op.kind = OpKind::add;
    op.name = block_.tensor(x).op;
    op.inputs = {x, *bias};
    op.outputs = {out};
    BackwardWriter backward(op);
    for (const TensorId id : op.inputs) backward.hand_on(id);
    block_.emit(std::move(op));
    return out;
  }

  /// torch.clamp: keeps its input; its backward compares with each limit.
  /// GptOssExperts._apply_gate: gate.clamp(max=7), up.clamp(-7, 7).
  TensorId clamp(std::string_view name, TensorId x, int limits) {
    const DType dtype = block_.dtype_of(x);
    const TensorId out = block_.make({"experts", name}, block_.tensor(x).shape, dtype);
    const TensorId number = scratch(block_, {"experts", "zero"}, {Expr(1)}, dtype);
    Op op;
    op.kind = OpKind::activation;
    op.name = "experts";
    op.inputs = {x};
    op.outputs = {out};
    op.saved = {x};
    BackwardWriter backward(op);
    std::vector<BackwardWriter::Made> beside = {backward.make(number, dtype)};
    for (int i = 0; i < limits; ++i) beside.push_back(backward.make(x, DType::boolean));
    const auto gradient = backward.make(x, dtype);
    for (; !beside.empty(); beside.pop_back()) backward.drop(beside.back());
    backward.give(x, gradient);
    block_.emit(std::move(op));
    return out;
  }

  /// (up + 1) · gate · sigmoid(α · gate) of interleaved channels.
  TensorId clamped(TensorId both) {
    Frame function(block_);
    function.local(both);
    const Shape half = {pairs_, size()};
    TensorId gate = slice(block_, {"experts", "gate"}, both, half);
    TensorId up = slice(block_, {"experts", "up"}, both, half);
    gate = function.local(clamp("clamped gate", gate, 1));
    up = function.local(clamp("clamped up", up, 2));
    const TensorId scaled = scale(block_, {"expert_activation", "scaled"}, gate);
    const TensorId sigmoid = memest::function(block_, {"expert_activation"}, Keeps::result, scaled);
    const TensorId active =
        function.local(multiply(block_, {"expert_activation", "times gate"}, gate, sigmoid));
    const TensorId raised = add_number(block_, {"experts", "up + 1"}, up);
    return multiply(block_, {"expert_gate_times_up"}, raised, active);
  }

  /// act(gate) · up of halves of one product.
  TensorId gated(TensorId both) {
    Frame function(block_);
    function.local(both);
    const Shape half = {pairs_, size()};
    const std::vector<TensorId> halves =
        split(block_, "experts", both, {{{"experts", "gate"}, half}, {{"experts", "up"}, half}});
    const TensorId active = activation(
        block_, {"expert_activation", part_.activation, ActivationWriting::python}, halves[0]);
    return multiply(block_, {"expert_gate_times_up"}, active, halves[1]);
  }

  /// empty_like(order), filled with its inverse.
  TensorId places_of(TensorId order) {
    const TensorId empty = made(block_, {{"places", "empty"}, {pairs_}, DType::int64}, {order});
    const TensorId numbers = made(block_, {{"places", "numbers"}, {pairs_}, DType::int64});
    const TensorId places = block_.alias({"places"}, empty, {pairs_});
    Op op;
    op.kind = OpKind::copy;
    op.name = "places";
    op.inputs = {empty, numbers, order};
    op.outputs = {places};
    block_.emit(std::move(op));
    return places;
  }

  /// x seen as [tokens, K, h], summed over K: a gradient of one row a token is copied for each.
  /// Autocast sums in fp32.
  TensorId sum_of_experts(TensorId x) {
    const DType dtype = block_.dtype_of(x);
    const DType summed = context_.policy.autocast ? DType::fp32 : dtype;
    const TensorId out = block_.make({"experts", "sum"}, {tokens_, context_.dims.h}, summed);
    Op op;
    op.kind = OpKind::reduce;
    op.name = "experts";
    op.inputs = {x};
    op.outputs = {out};
    KernelLaunch sum;
    sum.outer = tokens_;
    sum.reduced = Symbol::top_k;
    sum.inner = context_.dims.h;
    sum.dtype = summed;
    op.forward_launches = {std::move(sum)};
    BackwardWriter backward(op);
    if (part_.top_k > 1 || summed != dtype) {
      backward.give(x, backward.make(x, dtype));
    } else {
      backward.hand_on(x, Reach::through_view);
    }
    block_.emit(std::move(op));
    return out;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const MixtureOfExperts& part_;
  Expr tokens_;
  Expr pairs_;
  bool batched_;
};

/// DeepSeek's: the shared experts come after, and see sequences.
TensorId mixture_beside(BlockBuilder& block, const DecoderContext& context,
                        const MixtureOfExperts& part, TensorId x) {
  const Shape given = block.tensor(x).shape;
  Frame forward(block);
  forward.local(x);
  const RoutedChoice chosen = route(block, context, part, x);
  for (const TensorId local : {chosen.logits, chosen.weights, chosen.indices}) forward.local(local);
  const Expr tokens = context.dims.b * context.dims.s;
  const TensorId rows = view(block, {"experts", "rows"}, x, {tokens, context.dims.h});
  TensorId routed = ExpertsWriter(block, context, part).write(rows, chosen);
  routed = view(block, {"experts", "by sequence"}, routed, given);
  const DenseFeedForward dense = {
      .size = part.shared_size, .activation = part.activation, .bias = part.shared_bias};
  const TensorId shared = feed_forward(block, context, dense, {.x = x});
  Frame renaming(block);
  renaming.local(routed);
  return add(block, {"add_shared_expert"}, routed, shared);
}

}  // namespace

TensorId mixture(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part,
                 TensorId x) {
  if (part.shared_size > 0 && !part.shared_gate) return mixture_beside(block, context, part, x);
  const Shape given = block.tensor(x).shape;
  const Expr tokens = context.dims.b * context.dims.s;
  Frame forward(block);
  forward.local(x);
  x = view(block, {"experts", "rows"}, x, {tokens, context.dims.h});
  TensorId shared = 0;
  if (part.shared_size > 0) {
    const DenseFeedForward dense = {
        .size = part.shared_size, .activation = part.activation, .bias = part.shared_bias};
    shared = feed_forward(block, context, dense, {.x = x, .rows = {tokens}});
  }
  const RoutedChoice chosen = route(block, context, part, x);
  for (const TensorId local : {chosen.logits, chosen.weights, chosen.indices}) forward.local(local);
  // GPT-OSS answers the weights too, and the layer names them.
  if (context.habits.router == RouterWriting::of_choice) block.hold_to_end(chosen.weights);
  TensorId out = ExpertsWriter(block, context, part).write(x, chosen);
  if (part.shared_size > 0) {
    const Projection2d gate = {"shared_expert_gate", context.dims.h, Expr(1)};
    const TensorId logit = linear(block, gate, {{tokens}, x});
    const TensorId score = function(block, {"shared_expert_gate", "score"}, Keeps::result, logit);
    shared = forward.local(multiply(block, {"shared_expert_gate", "gated"}, score, shared));
    out = add(block, {"add_shared_expert"}, out, shared);
  }
  return view(block, {"experts", "by sequence"}, out, given);
}

}  // namespace memest
