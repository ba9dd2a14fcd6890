#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/attention_core.hpp"
#include "graph/lower/ops/indexing.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// Queries times keys. Autocast's copies live as long as the call.
TensorId eager_scores(BlockBuilder& block, const DecoderContext& context, Heads q, Heads k) {
  Frame call(block);
  k = cast_heads(block, context, "k_operand", k);
  q = cast_heads(block, context, "q_operand", q);
  for (const Heads& operand : {k, q}) call.local(operand.id);
  q = product_operand(block, context, "q_operand", q);
  k = broadcast_heads(block, context, "k_operand", k);
  k = product_operand(block, context, "k_operand", k);
  return scores_of(block, context.dims, q, k);
}

/// Probabilities times values.
TensorId eager_values(BlockBuilder& block, const DecoderContext& context, TensorId probabilities,
                      Heads v) {
  const DType dtype = operand_type(context.policy);
  Frame call(block);
  v = cast_heads(block, context, "v_operand", v);
  call.local(v.id);
  if (block.dtype_of(probabilities) != dtype) {
    probabilities = core_copy(block, {"probabilities", "cast"}, probabilities,
                              {block.tensor(probabilities).shape, dtype});
  }
  v = broadcast_heads(block, context, "v_operand", v);
  v = product_operand(block, context, "v_operand", v);
  return values_of(block, context.dims, probabilities, v);
}

/// Which of the scores' steps makes a tensor, and what it takes.
struct ScoreStep {
  OpKind kind = OpKind::scale;
  Place place;
  std::vector<TensorId> inputs;  ///< the scores first
  DType dtype = DType::bf16;
};

/// The scores of one attention on their way to softmax.
class ScoreWriter {
 public:
  ScoreWriter(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call)
      : block_(block), context_(context), call_(call) {}

  /// Returns softmax's input; `function` holds its names, `softmax` those the result renames.
  TensorId write(const AttentionInputs& inputs, Frame& function, Frame& softmax) {
    switch (context_.habits.scores) {
      case ScoreWriting::renamed:
        return softmax.local(masked(capped(scaled(product(inputs)))));
      case ScoreWriting::onto_bias:
        return function.local(masked(function.local(product_onto_bias(inputs))));
      case ScoreWriting::filled:
        return function.local(filled(biased(scaled(product(inputs)))));
      case ScoreWriting::in_place:
        if (call_.mask_by_head) {
          return softmax.local(masked(in_place(in_fp32_with_bias(inputs, function))));
        }
        return masked(in_place(softmax.local(product(inputs))));
      case ScoreWriting::with_sinks:
        return less_the_largest(with_sinks(softmax.local(masked(scaled(product(inputs))))));
    }
    return 0;
  }

 private:
  [[nodiscard]] Shape shape() const { return score_shape(context_.dims); }

  TensorId product(const AttentionInputs& inputs) {
    return eager_scores(block_, context_, inputs.q, inputs.k);
  }

  /// α·q·k + the bias's rows: each factor's gradient is scaled after its product.
  TensorId product_onto_bias(const AttentionInputs& inputs) {
    const Dimensions& dims = context_.dims;
    Frame call(block_);
    const TensorId ready =
        block_.shared("alibi", {dims.b, dims.a, dims.s}, context_.policy.weights);
    const TensorId bias = call.local(cast(block_, {"scores", "cast bias"}, ready, call_.dtype));
    Op op;
    op.kind = OpKind::batched_matmul;
    op.name = "scores";
    op.compute = call_.dtype;
    op.inputs = {inputs.q.id, inputs.k.id, bias};
    op.outputs = {block_.make({"scores"}, shape(), call_.dtype)};
    op.saved = {inputs.q.id, inputs.k.id};
    op.workspace = Workspace::cublas;
    op.part_of.attention_core = true;
    op.causal = true;
    BackwardWriter backward(op);
    for (const TensorId factor : op.saved) {
      // baddbmm with alpha 1/√d: maybe_multiply(grad.bmm(batch2ᵀ), alpha), two tensors for each
      // factor. beta is 1, and ALiBi's table wants no gradient.
      const auto raw = backward.make(factor, call_.dtype);
      const auto gradient = backward.make(factor, call_.dtype);
      backward.drop(raw);
      backward.give(factor, gradient, Reach::through_view);
    }
    const TensorId out = op.outputs.front();
    const Expr flops = score_flops(dims);
    block_.emit(std::move(op), {flops, Expr(2) * flops});
    return out;
  }

  /// A step whose gradient is a new tensor.
  TensorId made(const ScoreStep& step) {
    const TensorId out = block_.make(step.place, shape(), step.dtype);
    Op op = op_of(step, out);
    BackwardWriter backward(op);
    const TensorId scores = step.inputs.front();
    backward.give(scores, backward.make(scores, block_.dtype_of(scores)));
    block_.emit(std::move(op));
    return out;
  }

  static Op op_of(const ScoreStep& step, TensorId out) {
    Op op;
    op.kind = step.kind;
    op.name = step.place.op;
    op.inputs = step.inputs;
    op.outputs = {out};
    op.part_of.attention_core = true;
    return op;
  }

  /// The scores over √d.
  TensorId scaled(TensorId scores) {
    // torch.matmul(query, keyᵀ) * scaling: a tensor of its own beside the product. b 1, a 32, s
    // 4096 in bf16: twice 1.07 GB.
    if (!context_.program.library_functions) return scores;
    return made({OpKind::scale, {"scores", "scaled"}, {scores}, block_.dtype_of(scores)});
  }

  // FalconAttention.forward: attention_scores /= math.sqrt(head_dim); with ALiBi attention_logits
  // *= inv_norm_factor.
  TensorId in_place(TensorId scores) {
    const TensorId out = block_.alias({"scores", "scaled"}, scores, shape());
    Op op = op_of({OpKind::scale, {"scores"}, {scores}, block_.dtype_of(scores)}, out);
    BackwardWriter backward(op);
    backward.give(scores, backward.make(scores, block_.dtype_of(scores)));
    block_.emit(std::move(op));
    return out;
  }

  TensorId capped(TensorId scores) {
    // Gemma2's eager_attention_forward: attn_weights / softcap, tanh, * softcap; tanh keeps its
    // result.
    if (!context_.attention.softcap) return scores;
    const PartOfLayer core(block_, &LayerParts::attention_core);
    return softcap(block_, "softcap", scores);
  }

  // MptAttention: position_bias is fp32, so bf16 scores become fp32 here.
  TensorId biased(TensorId scores) {
    const PartOfLayer core(block_, &LayerParts::attention_core);
    const TensorId bias = block_.shared(
        "alibi", {context_.dims.a, Expr(1), Expr(context_.decoder.max_positions)}, DType::fp32);
    return add(block_, {"alibi"}, scores, bias);
  }

  TensorId in_fp32_with_bias(const AttentionInputs& inputs, Frame& function) {
    const PartOfLayer core(block_, &LayerParts::attention_core);
    const Dimensions& dims = context_.dims;
    const TensorId given = function.local(product(inputs));
    const TensorId wide = function.local(cast(block_, {"scores", "in fp32"}, given, DType::fp32));
    const TensorId bias = block_.shared("alibi", {dims.b, dims.a, dims.s}, context_.policy.weights);
    return function.local(add(block_, {"alibi"}, wide, bias));
  }

  // derivatives.yaml, masked_fill.Scalar: grad.masked_fill(mask, 0), so the mask is kept, a byte a
  // score, but no score.
  TensorId filled(TensorId scores) {
    const Dimensions& dims = context_.dims;
    const TensorId mask =
        block_.shared("boolean mask", {dims.b, Expr(1), dims.s, dims.s}, DType::boolean);
    const TensorId out = block_.make({"mask"}, shape(), block_.dtype_of(scores));
    Op op = op_of({OpKind::mask, {"mask"}, {scores, mask}, block_.dtype_of(scores)}, out);
    op.saved = {mask};
    BackwardWriter backward(op);
    backward.give(scores, backward.make(scores, block_.dtype_of(scores)));
    block_.emit(std::move(op));
    return out;
  }

  /// The causal (or sliding, or ALiBi) mask added to the scores.
  TensorId masked(TensorId scores) {
    const Dimensions& dims = context_.dims;
    const DType weights = block_.precision().weights;
    // eager_mask makes the mask in the type of inputs_embeds: fp32 under autocast, and bf16 scores
    // + fp32 mask are fp32.
    const DType dtype = promoted(block_.dtype_of(scores), weights);
    ScoreStep step = {OpKind::mask, {"mask"}, {scores}, dtype};
    if (context_.program.passes_masks) {
      const Expr heads = call_.mask_by_head ? dims.a : Expr(1);
      step.inputs.push_back(block_.shared(mask_name(), {dims.b, heads, dims.s, dims.s}, weights));
    }
    if (block_.dtype_of(scores) != dtype) return settled(step);
    const TensorId out = block_.make(step.place, shape(), dtype);
    Op op = op_of(step, out);
    BackwardWriter(op).hand_on(scores);
    block_.emit(std::move(op));
    return out;
  }

  /// A step after whose backward the engine casts the gradient.
  TensorId settled(const ScoreStep& step) {
    const TensorId out = block_.make(step.place, shape(), step.dtype);
    Op op = op_of(step, out);
    BackwardWriter backward(op);
    backward.leave_node();
    const TensorId scores = step.inputs.front();
    backward.give(scores, backward.make(scores, block_.dtype_of(scores)));
    block_.emit(std::move(op));
    return out;
  }

  /// A learned logit a head beside those of the keys.
  /// GPT-OSS's eager_attention_forward: sinks.reshape(1, -1, 1, 1).expand(b, -1, s, -1), then
  /// torch.cat: every tensor of scores has s + 1 columns.
  TensorId with_sinks(TensorId scores) {
    const Dimensions& dims = context_.dims;
    const TensorId sinks = block_.parameter({"sinks", "weight"}, {dims.a});
    const Shape seen_as = {dims.b, dims.a, dims.s, Expr(1)};
    const TensorId seen = block_.alias({"sinks", "of all queries"}, sinks, seen_as);
    block_.tensor(seen).role = Role::activation;  // no parameter of its own
    Op op = op_of({OpKind::view, {"sinks"}, {sinks}, block_.dtype_of(sinks)}, seen);
    BackwardWriter backward(op);
    backward.give(sinks, backward.make(sinks, block_.dtype_of(sinks)), Reach::through_view);
    KernelLaunch sum;
    sum.reduced = dims.b * dims.s;
    sum.inner = dims.a;
    sum.dtype = block_.dtype_of(sinks);
    backward.launch(std::move(sum));
    block_.emit(std::move(op));
    Shape joined = shape();
    joined.back() += Expr(1);
    const PartOfLayer core(block_, &LayerParts::attention_core);
    return concatenate(block_, {"scores", "with sinks"}, {{scores, seen}}, std::move(joined));
  }

  /// The largest's place is kept for its gradient, which is put into zeros.
  /// combined_logits - combined_logits.max(dim=-1, keepdim=True).values; derivatives.yaml, max.dim
  /// keeps indices (value_selecting_reduction_backward).
  TensorId less_the_largest(TensorId scores) {
    const PartOfLayer core(block_, &LayerParts::attention_core);
    const DType dtype = block_.dtype_of(scores);
    Shape row = block_.tensor(scores).shape;
    row.back() = Expr(1);
    const Pair largest = taken_of(block_, {{"scores", "largest"}, row, dtype},
                                  {{"scores", "place of the largest"}, row, DType::int64}, scores);
    Frame renaming(block_);
    renaming.local(scores);
    return subtract(block_, {"scores", "less the largest"}, scores, largest.first);
  }

  [[nodiscard]] std::string_view mask_name() const {
    return call_.mask_by_head ? "alibi mask" : call_.mask;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const AttentionCall& call_;
};

/// Who names the joined heads apart from attention's output.
bool names_joined(const DecoderContext& context) {
  const ScoreWriting scores = context.habits.scores;
  return scores == ScoreWriting::onto_bias || scores == ScoreWriting::filled;
}

/// Falcon's softmax is asked for in the hidden states' type, which autocast's norm made fp32.
bool in_hidden_type(const DecoderContext& context) {
  return context.habits.scores == ScoreWriting::in_place;
}

/// The type of the softmax over `scores`. Autocast takes it in fp32 but where the caller names a
/// type (fp32_set_opt_dtype, aten/src/ATen/autocast_mode.h): GPT-OSS names that of its scores.
DType softmax_type(const DecoderContext& context, const AttentionCall& call, DType scores) {
  if (in_hidden_type(context))
    return context.policy.autocast ? DType::fp32 : context.policy.weights;
  if (context.habits.scores == ScoreWriting::with_sinks) return scores;
  // GPT2's softmax names no dtype; LLaMA's says dtype=torch.float32, for which bf16 scores are
  // first copied to fp32.
  const bool in_type = context.habits.softmax_in_type;
  return in_type && !context.policy.autocast ? call.dtype : DType::fp32;
}

}  // namespace

TensorId eager_attention(BlockBuilder& block, const DecoderContext& context,
                         const AttentionCall& call, AttentionInputs inputs) {
  Frame frame(block);
  inputs.k = repeat_heads(block, context, "k_repeat", inputs.k);
  inputs.v = repeat_heads(block, context, "v_repeat", inputs.v);
  const bool onto_bias = context.habits.scores == ScoreWriting::onto_bias;
  if (onto_bias) {
    inputs.q = product_operand(block, context, "q_operand", inputs.q);
    inputs.k = product_operand(block, context, "k_operand", inputs.k);
    inputs.v = product_operand(block, context, "v_operand", inputs.v);
    for (const Heads& local : {inputs.q, inputs.k, inputs.v}) call.function->local(local.id);
  }
  for (const Heads& local : {inputs.k, inputs.v}) frame.local(local.id);
  const bool sinks = context.attention.sinks;
  const DType given = block.dtype_of(sinks ? inputs.v.id : inputs.q.id);
  const TensorId probabilities = [&] {
    auto naming = std::make_optional<Frame>(block);
    const TensorId scores =
        ScoreWriter(block, context, call).write(inputs, *call.function, *naming);
    TensorId wide =
        core_softmax(block, scores, softmax_type(context, call, block.dtype_of(scores)));
    // Where the softmax is a statement of its own the scores lose their name before the cast.
    // GPT-2: softmax(attn_weights), then attn_weights.type(value.dtype); LLaMA casts in the
    // softmax's own expression.
    if (context.habits.softmax_in_type && !sinks) naming.reset();
    if (sinks) {
      for (const TensorId local : {scores, wide}) frame.local(local);
      const PartOfLayer core(block, &LayerParts::attention_core);
      wide = slice(block, {"softmax", "without sinks"}, wide, score_shape(context.dims));
      wide = core_dropout(block, call.dropout, wide);
    }
    const bool casts = block.dtype_of(wide) != given && !in_hidden_type(context);
    if (!casts) return wide;
    return core_copy(block, {"probabilities"}, wide, {score_shape(context.dims), given});
  }();
  const TensorId dropped = sinks ? probabilities : core_dropout(block, call.dropout, probabilities);
  // Attention answers its weights too, and the layer names them.
  // return attn_output, attn_weights: the layer's "_" holds the second one.
  if (context.program.library_functions && !sinks) block.hold_to_end(dropped);
  const TensorId joined =
      join(block, context, eager_values(block, context, dropped, inputs.v), true);
  if (names_joined(context)) call.function->local(joined);
  return joined;
}

TensorId textbook_attention(BlockBuilder& block, const DecoderContext& context,
                            const AttentionCall& call, AttentionInputs inputs) {
  const Dimensions& dims = context.dims;
  const TensorId scores = scores_of(block, dims, inputs.q, inputs.k);
  TensorId probabilities = core_softmax(block, scores, call.dtype);
  probabilities = core_dropout(block, call.dropout, probabilities);
  const TensorId mixed = values_of(block, dims, probabilities, inputs.v);
  return view(block, {"values", "joined"}, mixed, {dims.b, dims.s, dims.a * dims.d});
}

}  // namespace memest
