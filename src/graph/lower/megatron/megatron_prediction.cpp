// Multi-token prediction (multi_token_prediction.py): layers behind the decoder, of which each
// embeds the tokens one place further on, joins them with what came before, and predicts one token
// more by the model's own output layer; and the branch of GPTModel._postprocess that judges them.
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/lower/megatron/megatron_ends.hpp"
#include "graph/lower/megatron/megatron_mappings.hpp"

namespace memest {
namespace {

/// MTPLossLoggingHelper.tracker.
constexpr std::string_view kPredictedValues = "predicted tokens' reported losses";

/// A tensor of [b, s] one place to the left, and the sum of all of it.
struct Rolled {
  TensorId out = 0;
  TensorId sum = 0;
};

/// roll_tensor. Over context-parallel ranks two chunks are rolled, of which each gets the first
/// token of its neighbour: 8 B a sequence.
Rolled rolled(BlockBuilder& block, const MegatronContext& context, std::string_view name,
              TensorId x) {
  const Shape shape = {context.b, context.s};
  const DType dtype = block.dtype_of(x);
  const auto make = [&](std::string_view what, TensorId from) {
    return compute(block, OpKind::copy, {from}, {{name, what}, shape, dtype});
  };
  if (context.policy.context > 1) x = make("rolled chunks", x);
  const TensorId out = make("rolled", x);
  // `return rolled_tensor, rolled_tensor.sum()`.
  return {out, sum_of_all(block, {name, "sum"}, out)};
}

/// The inputs of a layer of prediction.
struct Given {
  TensorId ids = 0;
  TensorId positions = 0;
  TensorId hidden = 0;
};

/// _get_embeddings: ids and positions are rolled on from layer to layer, and the ids embedded.
TensorId embedded_ahead(BlockBuilder& block, const MegatronContext& context, bool own_table,
                        Given& tokens) {
  Frame call(block);
  {
    Frame first(block);
    const Rolled ids = rolled(block, context, "token ids", tokens.ids);
    first.local(ids.sum);
    tokens.ids = ids.out;
    // torch.roll reads rows of several sequences that are one row as a copy.
    TensorId positions = tokens.positions;
    if (block.tensor(positions).shared && context.policy.micro_batch > 1) {
      positions = compute(block, OpKind::copy, {positions},
                          {{"position ids", "by sequence"}, {context.b, context.s}, DType::int64});
    }
    const Rolled places = rolled(block, context, "position ids", positions);
    tokens.positions = places.out;
    call.local(places.sum);
  }
  const TensorId ahead = embedded_again(block, context, tokens.ids, !own_table);
  // make_viewless_tensor leaves what is no view.
  const bool is_view = block.tensor(tokens.hidden).storage != tokens.hidden;
  if (is_view) tokens.hidden = viewless(block, "predictions", tokens.hidden);
  return ahead;
}

/// A norm whose answer is one half of each joined row: so is its gradient, which the kernels take
/// copied.
TensorId norm_of_half(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                      TensorId x) {
  const TensorId out = megatron_norm(block, context, name, x);
  BackwardWriter backward(block.ops().back());
  backward.drop(backward.make(out, block.dtype_of(out)));
  return out;
}

/// _concat_embeddings: eh_proj is a ColumnParallelLinear whose output is gathered, and cut into
/// shards of the sequence where the layers take those.
TensorId joined(BlockBuilder& block, const MegatronContext& context, TensorId ahead, TensorId x) {
  const Expr both = Expr(2) * context.h;
  Frame call(block);
  const TensorId left =
      call.local(norm_of_half(block, context, "prediction_embedding_norm", ahead));
  const TensorId right = norm_of_half(block, context, "prediction_hidden_norm", x);
  x = concatenate(block, {"eh_proj", "input"}, {.parts = {left, right}}, context.stream(both));
  x = column_product(
      block, context,
      {.name = "eh_proj", .in = both, .out = context.h / context.t, .gathers = context.sequence},
      x);
  if (context.policy.tensor == 1) return x;
  // _gather_along_last_dim: the ranks' parts one after the other, then side by side.
  const TensorId parts =
      scratch(block, {"eh_proj", "ranks' parts"}, context.tokens(context.h), block.dtype_of(x));
  x = exchanged(block, {{"eh_proj", "gathered"}, context.tokens(context.h), block.dtype_of(x)}, x,
                {.kind = OpKind::concatenate, .scratch = {parts}});
  return context.sequence ? own_tokens(block, context, {"eh_proj", "own shard"}, x) : x;
}

/// The context of a layer of prediction: get_fp8_context() alone, whatever the first and last
/// layers are in, and nothing of fp4.
MegatronContext of_prediction(const MegatronContext& model) {
  MegatronContext context = model;
  const auto& linears = context.policy.te_linears;
  if (linears && linears->recipe != TeRecipe::nvfp4) context.quantized = linears;
  return context;
}

/// MultiTokenPredictionLayer.forward: a norm, a product and a layer as the decoder's last.
TensorId predicted(BlockBuilder& block, const MegatronContext& context, const SharedModules& shared,
                   Given& tokens) {
  Frame call(block);
  const TensorId ahead = call.local(embedded_ahead(block, context, shared.embedding, tokens));
  // _proj_and_transformer_layer, which full recompute runs again.
  const PartOfLayer inside(block, &LayerParts::prediction);
  MegatronContext joins = context;
  joins.norm_apart = true;
  TensorId out = 0;
  {
    Frame naming(block);
    const TensorId y = naming.local(joined(block, joins, ahead, tokens.hidden));
    const bool has_experts = std::holds_alternative<MixtureOfExperts>(
        context.decoder.kinds[context.decoder.order.back().kind].feed_forward);
    out = transformer_layer(block, context, {.has_experts = has_experts}, y);
  }
  return megatron_norm(block, context, "prediction_norm", call.local(out));
}

/// loss_mask · loss, or loss / num_tokens: keeps the mask, or the number.
TensorId times(BlockBuilder& block, std::string_view name, TensorId loss, TensorId factor) {
  Op op;
  op.kind = OpKind::multiply;
  op.name = "prediction_loss";
  op.inputs = {loss, factor};
  const TensorId out = block.make({op.name, name}, block.tensor(loss).shape, block.dtype_of(loss));
  op.outputs = {out};
  op.saved = {factor};
  BackwardWriter backward(op);
  backward.give(loss, backward.make(loss, block.dtype_of(loss)));
  block.emit(std::move(op));
  return out;
}

/// MTPLossAutoScaler: the output is the hidden states as they are; its backward gives the loss,
/// which it keeps, ones times the main loss's scale.
TensorId tied_to(BlockBuilder& block, TensorId hidden, TensorId loss) {
  Op op;
  op.kind = OpKind::view;
  op.name = "prediction_loss";
  op.inputs = {hidden, loss};
  const TensorId out = block.alias({op.name, "hidden states"}, hidden, block.tensor(hidden).shape);
  op.outputs = {out};
  op.saved = {loss};
  op.saves_behind = true;
  BackwardWriter backward(op);
  const auto ones = backward.make(loss, block.dtype_of(loss));
  const auto scaled = backward.make(loss, block.dtype_of(loss));
  backward.drop(ones);
  backward.hand_on(hidden);
  backward.give(loss, scaled);
  block.emit(std::move(op));
  return out;
}

/// MultiTokenPredictionBlock.forward: what the decoder and each layer behind it answer, joined
/// along the sequence.
TensorId joined_predictions(BlockBuilder& block, const MegatronContext& context,
                            const SharedModules& shared, TensorId x) {
  Frame call(block);
  // torch.chunk(hidden_states, 1 + offset): one chunk is a split too.
  const TensorId first =
      split(block, "predictions", x, {{{"predictions", "decoded"}, context.stream()}}).front();
  std::vector<TensorId> list = {first};
  Given tokens{block.shared("token ids", {context.b, context.s}, DType::int64),
               block.shared("position ids", {Expr(1), context.s}, DType::int64), first};
  for (std::int64_t i = 0; i < context.decoder.mtp_layers; ++i) {
    Frame naming(block);
    if (i > 0) {
      for (const TensorId id : {tokens.ids, tokens.positions}) naming.local(id);
    }
    tokens.hidden = predicted(block, context, shared, tokens);
    list.push_back(call.local(tokens.hidden));
  }
  for (const TensorId id : {tokens.ids, tokens.positions}) call.local(id);
  Shape joint = context.stream();
  joint.front() = Expr(1 + context.decoder.mtp_layers) * joint.front();
  return concatenate(block, {"predictions", "joined"}, {.parts = list}, std::move(joint));
}

/// The tensors that GPTModel._postprocess names of one prediction until the next.
struct Judged {
  TensorId hidden = 0;
  TensorId mask = 0;
  TensorId labels = 0;
  std::optional<TensorId> of_labels = {};  ///< their sum
  std::optional<TensorId> logits = {};
  std::optional<TensorId> loss = {};
};

/// The branch of GPTModel._postprocess that judges predictions, one after the other.
class PredictionLosses {
 public:
  PredictionLosses(BlockBuilder& block, const MegatronContext& context, const ParallelProduct& head)
      : block_(block), context_(context), head_(head) {}

  /// The loss of one prediction, `x` its layer's answer.
  Judged judge(TensorId x, const Judged& before) {
    Judged now;
    {
      Frame naming(block_);
      // `mtp_logits, _ = self.output_layer(...)`: the sum of the labels was `_`.
      for (const auto& name : {before.logits, before.of_labels}) {
        if (name) naming.local(*name);
      }
      now.logits = parallel_product(block_, context_, head_, x);
    }
    {
      Frame naming(block_);
      naming.local(before.labels);
      const Rolled labels = rolled(block_, context_, "predicted labels", before.labels);
      now.labels = labels.out;
      now.of_labels = labels.sum;
    }
    const Rolled mask = rolled(block_, context_, "predicted mask", before.mask);
    now.mask = mask.out;
    TensorId loss = 0;
    {
      Frame naming(block_);
      if (before.loss) naming.local(*before.loss);
      loss = losses_of_tokens(block_, context_, *now.logits, now.labels);
    }
    now.loss = times(block_, "masked", loss, now.mask);
    report(*now.loss, mask.sum, !before.loss);
    const TensorId weighed = scale(block_, {"prediction_loss", "scaled"}, *now.loss);
    now.hidden = tied_to(block_, before.hidden, times(block_, "a token", weighed, mask.sum));
    return now;
  }

 private:
  /// MTPLossLoggingHelper.save_loss_to_tracker: the first makes the values, which the process
  /// keeps; each adds its own.
  void report(TensorId loss, TensorId tokens, bool first) {
    const auto number = [&](std::string_view name, const std::vector<TensorId>& inputs) {
      return compute(block_, OpKind::reduce, inputs,
                     {{"prediction_loss", name}, {Expr(1)}, DType::fp32});
    };
    const TensorId mean = number("mean", {number("sum", {loss}), tokens});
    Op op;
    op.kind = OpKind::add;
    op.name = "prediction_loss";
    if (first) {
      const TensorId values = block_.make({"prediction_loss", "values"},
                                          {Expr(context_.decoder.mtp_layers)}, DType::fp32);
      op.outputs = {values};
      op.once = true;
      block_.emit(op);
      block_.outlive(values, kPredictedValues);
      op.outputs.clear();
      op.once = false;
    }
    op.inputs = {mean};
    block_.emit(std::move(op));
  }

  BlockBuilder& block_;
  const MegatronContext& context_;
  const ParallelProduct& head_;
};

}  // namespace

PredictedTokens predict_tokens(BlockBuilder& block, const MegatronContext& model,
                               const SharedModules& shared, TensorId x) {
  const MegatronContext context = of_prediction(model);
  const TensorId all = joined_predictions(block, context, shared, x);
  // _postprocess: mtp_labels = labels.clone(); the step's mask is rolled with them.
  const Shape tokens = {context.b, context.s};
  const TensorId given = block.shared("labels", tokens, DType::int64);
  Judged last;
  last.labels = compute(block, OpKind::copy, {given}, {{"predicted labels"}, tokens, DType::int64});
  const std::vector<SplitPart> places(static_cast<std::size_t>(1 + context.decoder.mtp_layers),
                                      {{"predictions", "part"}, context.stream()});
  const std::vector<TensorId> parts = split(block, "predictions", all, places);
  last.hidden = parts.front();
  last.mask = block.shared("loss mask", tokens, DType::fp32);
  PredictionLosses losses(block, context, shared.head);
  for (std::size_t i = 1; i < parts.size(); ++i) last = losses.judge(parts[i], last);
  block.outlive(*last.logits, kPredictedLogits);
  block.outlive(*last.loss, kPredictedLoss);
  block.outlive(last.labels, kPredictedLabels);
  return {last.hidden, *last.of_labels};
}

}  // namespace memest
