// The modules of GPTModel before and behind its layers: LanguageModelEmbedding, the final norm with
// the output layer, and VocabParallelCrossEntropy.
#include "graph/lower/megatron/megatron_ends.hpp"

#include <utility>

#include "graph/lower/megatron/megatron_adapter.hpp"
#include "graph/lower/megatron/megatron_mappings.hpp"

namespace memest {
namespace {

constexpr std::string_view kIds = "token ids";

/// An integer or boolean computation without gradient.
TensorId step(BlockBuilder& block, Place place, const std::vector<TensorId>& inputs, DType dtype) {
  return compute(block, OpKind::mask, inputs, {place, block.tensor(inputs.front()).shape, dtype});
}

/// Rows of other ranks' ids are zeroed in place: their gradient is a copy with zeros.
/// output_parallel[input_mask, :] = 0.0 (index_put_); with one rank nothing is masked.
TensorId zeroed(BlockBuilder& block, TensorId rows, TensorId mask) {
  const TensorId out = block.alias({"embedding", "zeroed"}, rows, block.tensor(rows).shape);
  Op op;
  op.kind = OpKind::mask;
  op.name = "embedding";
  op.inputs = {rows, mask};
  op.outputs = {out};
  op.saved = {mask};
  BackwardWriter backward(op);
  backward.give(rows, backward.make(rows, block.dtype_of(rows)));
  block.emit(std::move(op));
  return out;
}

/// Several sequences lie by sequence and are turned to lie by position; one lies so already.
bool transposes(const MegatronContext& context) { return context.policy.micro_batch > 1; }

TensorId look_up_rows(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                      LookUp part) {
  part.count = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  part.gradient_is_transposed = transposes(context);
  return look_up(block, name, part);
}

bool has_learned_positions(const MegatronContext& context) {
  return std::holds_alternative<LearnedPosition>(context.decoder.position);
}

/// The ranks' rows are summed to shards of the sequence; positions are added to the whole of them.
/// reduce_scatter_embeddings (language_model_embedding.py): sequence parallelism, no position
/// embeddings, no tokentypes.
bool scatters_words(const MegatronContext& context) {
  return context.sequence && !has_learned_positions(context);
}

TensorId by_position(BlockBuilder& block, const MegatronContext& context, TensorId x) {
  // embeddings.transpose(0, 1).contiguous(): [1, s, h] is [s, 1, h] as it lies.
  if (!transposes(context)) return x;
  return copy(block, {"embedding", "by position"}, x, context.tokens(context.h));
}

/// The ids that are embedded, and whether this block has the table.
struct EmbeddedIds {
  TensorId ids = 0;
  bool owns_table = true;
};

TensorId words(BlockBuilder& block, const MegatronContext& context, const EmbeddedIds& embedded) {
  const TensorId ids = embedded.ids;
  const std::int64_t rows = context.decoder.vocab_size / context.policy.tensor;
  const auto table = [&] {
    const Place place{"embedding", "weight"};
    const Shape shape = {context.v, context.h};
    return embedded.owns_table ? block.parameter(place, shape) : block.tied_parameter(place, shape);
  };
  // VocabParallelEmbedding.forward: self.norm(output) behind the sum over the ranks.
  const auto normed = [&](TensorId x) {
    return context.decoder.embedding_norm ? megatron_norm(block, context, "embedding_norm", x) : x;
  };
  if (context.policy.tensor == 1) {
    return normed(look_up_rows(block, context, "embedding", {ids, table(), 0, rows}));
  }
  Frame call(block);
  const OwnIds own = own_ids(block, "embedding", ids);
  for (const TensorId local : {own.mask, own.ids}) call.local(local);
  const TensorId x = zeroed(
      block, look_up_rows(block, context, "embedding", {own.ids, table(), 0, rows}), own.mask);
  // VocabParallelEmbedding.forward does both itself.
  if (scatters_words(context)) {
    return normed(reduced(block, context, "embedding", by_position(block, context, x)));
  }
  block.send_forward({.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes()});
  return normed(x);
}

/// The embedded tokens as the residual stream takes them.
TensorId embedded(BlockBuilder& block, const MegatronContext& context, const EmbeddedIds& ids) {
  const bool learned = has_learned_positions(context);
  Frame call(block);
  TensorId x = words(block, context, ids);
  if (learned) {
    call.local(x);
    // All sequences share them.
    const TensorId places = block.alias(
        {"position_embedding", "ids"},
        block.shared("position ids", {Expr(1), context.s}, DType::int64), {context.b, context.s});
    const TensorId table =
        block.parameter({"position_embedding", "weight"}, {Symbol::max_positions, context.h});
    const std::int64_t rows = std::get<LearnedPosition>(context.decoder.position).rows;
    const TensorId positions = call.local(look_up_rows(block, context, "position_embedding",
                                                       {.indices = places,
                                                        .table = table,
                                                        .table_rows = rows,
                                                        .indices_repeat = transposes(context)}));
    x = add(block, {"add_positions"}, x, positions);
  }
  if (!scatters_words(context)) x = by_position(block, context, x);
  if (context.sequence) {
    if (!scatters_words(context)) x = own_tokens(block, context, {"embedding", "own shard"}, x);
    // config.clone_scatter_output_in_embedding: a view would hold the whole tensor.
    x = copy(block, {"embedding", "clone"}, x, context.stream());
  }
  return dropout(block, "embedding_dropout", context.dropout(context.decoder.dropout.embedding), x);
}

/// The likelihood's gradient: the kept softmax becomes it in place, then takes the logits' type.
void write_loss_backward(BlockBuilder& block, TensorId logits, TensorId targets, Op& op) {
  BackwardWriter backward(op);
  const TensorId loss = op.outputs.front();
  // prepare_gradient_calculation_operands: arange_1d, and 1.0 - target_mask.float(); then
  // grad_2d[arange_1d, masked_target_1d] -= ... and mul_ in place.
  const auto counted = backward.make(targets, DType::int64);
  const auto flags = backward.make(loss, DType::fp32);
  const auto update = backward.make(loss, DType::fp32);
  backward.drop(flags);
  backward.drop(backward.make(loss, DType::fp32));
  backward.drop(counted);
  backward.drop(update);
  if (block.dtype_of(logits) == DType::fp32) {
    backward.give_kept(logits);
    return;
  }
  backward.leave_node();
  backward.give(logits, backward.make(logits, block.dtype_of(logits)));
}

/// VocabParallelCrossEntropy: the logits in fp32 become their exponentials, then the softmax, in
/// place. Answers the losses of all tokens.
TensorId cross_entropy(BlockBuilder& block, const MegatronContext& context, TensorId logits,
                       TensorId targets) {
  const Shape tokens = {context.s, context.b};
  Frame call(block);
  const auto make = [&](std::string_view name, const std::vector<TensorId>& inputs, DType dtype) {
    return compute(block, OpKind::softmax, inputs, {{"cross_entropy", name}, tokens, dtype});
  };
  // Over the ranks' shards of the vocabulary.
  const auto all_reduced = [&](TensorId x) {
    if (context.policy.tensor == 1) return x;
    block.send_forward({.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes()});
    return x;
  };
  TensorId scores = logits;
  if (block.dtype_of(logits) != DType::fp32) {
    // vocab_parallel_logits.float(), and all after it in this one tensor, which is kept: 8192
    // tokens of V 128256 over 8 ranks are 8192·16032·4 B = 525 MB.
    scores = compute(block, OpKind::cast, {logits},
                     {{"cross_entropy", "in fp32"}, block.tensor(logits).shape, DType::fp32});
  }
  const TensorId highest = call.local(all_reduced(make("maximum", {scores}, DType::fp32)));
  // torch.max(..., dim=-1)[0] makes indices too.
  make("its place", {highest}, DType::int64);
  const OwnIds own = own_ids(block, "cross_entropy", targets);
  for (const TensorId local : {own.mask, own.ids}) call.local(local);
  const TensorId counted = make("positions", {targets}, DType::int64);
  // logits_2d[arange_1d, masked_target_1d], then .clone().
  const TensorId picked = make("target's score", {scores, counted}, DType::fp32);
  const TensorId predicted =
      call.local(all_reduced(make("target's own score", {picked}, DType::fp32)));
  const TensorId sum = call.local(all_reduced(make("sum", {scores, counted}, DType::fp32)));
  const TensorId logarithm = make("logarithm", {sum}, DType::fp32);
  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = "cross_entropy";
  op.inputs = {logits, scores, logarithm, predicted};
  const TensorId loss = block.make({"cross_entropy", "loss"}, tokens, DType::fp32);
  op.outputs = {loss};
  op.saved = {scores, own.mask, own.ids};
  write_loss_backward(block, logits, own.ids, op);
  block.emit(std::move(op));
  return loss;
}

/// CrossEntropyFunction (triton/cross_entropy.py): the gradient takes the place of the logits while
/// the loss is taken. A rank's maxima, sums and targets' scores, and those of all, go with it.
TensorId te_cross_entropy(BlockBuilder& block, const MegatronContext& context, TensorId logits,
                          TensorId targets) {
  const Shape tokens = {context.s, context.b};
  const Expr three = 3;
  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = "cross_entropy";
  op.inputs = {logits, targets};
  // Kept are the logits' own bytes, 2 B each in bf16, where Megatron's function keeps 4.
  op.saved = {logits};
  op.forward_scratch = {
      scratch(block, {"cross_entropy", "statistics"}, {three, context.s, context.b}, DType::fp32)};
  if (context.policy.tensor > 1) {
    op.forward_scratch.push_back(scratch(block, {"cross_entropy", "all ranks' statistics"},
                                         {three * context.t, context.s, context.b}, DType::fp32));
    op.forward_messages = {{.kind = MessageKind::all_gather,
                            .bytes = block.tensor(op.forward_scratch.back()).bytes()}};
  }
  const TensorId loss = block.make({"cross_entropy", "loss"}, tokens, DType::fp32);
  op.outputs = {loss};
  BackwardWriter(op).give_kept(logits);
  block.emit(std::move(op));
  return loss;
}

}  // namespace

TensorId viewless(BlockBuilder& block, std::string_view name, TensorId x) {
  Op op;
  op.kind = OpKind::view;
  op.name = name;
  op.inputs = {x};
  op.forward_scratch = {scratch(block, {name, "single element"}, {Expr(1)}, block.dtype_of(x))};
  const TensorId out = block.alias({name, "viewless"}, x, block.tensor(x).shape);
  op.outputs = {out};
  BackwardWriter(op).hand_on(x, Reach::through_view);
  block.emit(std::move(op));
  return out;
}

TensorId embedded_again(BlockBuilder& block, const MegatronContext& context, TensorId ids,
                        bool copied) {
  return embedded(block, context, {ids, copied});
}

OwnIds own_ids(BlockBuilder& block, std::string_view op, TensorId ids) {
  const TensorId below = step(block, {op, "below"}, {ids}, DType::boolean);
  const TensorId above = step(block, {op, "above"}, {ids}, DType::boolean);
  const TensorId mask = step(block, {op, "other ranks' ids"}, {below, above}, DType::boolean);
  const TensorId copied = step(block, {op, "copied ids"}, {ids}, DType::int64);
  return {mask, step(block, {op, "own ids"}, {copied}, DType::int64)};
}

Block megatron_embedding(const MegatronContext& context, bool named) {
  BlockBuilder block("embedding", context.precision());
  TensorId x = embedded(block, context, {block.shared(kIds, {context.b, context.s}, DType::int64)});
  if (!context.latent) rotary_table(block, context);
  // A transposed tensor without a copy is a view; TransformerBlock.forward calls
  // make_viewless_tensor, so that pipeline stages can free outputs by .data.
  const bool copied = transposes(context) || context.sequence ||
                      context.dropout(context.decoder.dropout.embedding) > 0;
  if (!copied) x = viewless(block, "embedding", x);
  if (named) block.outlive(x, kEmbedded);
  return std::move(block).take(x);
}

TensorId losses_of_tokens(BlockBuilder& block, const MegatronContext& context, TensorId logits,
                          TensorId targets) {
  TensorId loss = 0;
  Frame call(block);
  if (transposes(context)) {
    targets = call.local(step(block, {"labels", "by position"}, {targets}, DType::int64));
  }
  const bool fused = context.policy.implementation.loss == LossKernel::te;
  const auto judge = fused ? te_cross_entropy : cross_entropy;
  loss = judge(block, context, logits, targets);
  if (!transposes(context)) return loss;
  return copy(block, {"loss", "by sequence"}, loss, {context.b, context.s});
}

Block megatron_final_norm(const MegatronContext& context) {
  BlockBuilder block("final norm", context.precision());
  const TensorId x = block.block_input(context.stream(), context.policy.weights);
  const TensorId out = megatron_norm(block, context, "final_norm", x);
  return std::move(block).take(out);
}

Block megatron_head(const MegatronContext& context, const MegatronHead& head) {
  BlockBuilder block("head", context.precision());
  TensorId x = block.block_input(context.stream(), context.policy.weights);
  if (head.norms) {
    x = megatron_norm(block, context, "final_norm", x);
  } else {
    // No layer of this stage has made the table; TransformerBlock.forward without layers and norm
    // clones what it is given.
    if (!context.latent) rotary_table(block, context);
    x = copy(block, {"decoder", "clone"}, x, context.stream());
    block.ops().back().gradients.front().reach = Reach::directly;
  }
  if (context.adapter != nullptr) block.outlive(x, kDecoded);
  ParallelProduct product{"lm_head", context.h, context.v};
  product.gathers = context.sequence;
  product.tied = head.ties;
  {
    Frame naming(block);
    if (context.decoder.mtp_layers > 0) {
      product.weight = weight_of(block, product);
      const auto [hidden, named] = predict_tokens(block, context, {head.embeds, product}, x);
      x = hidden;
      naming.local(named);
    }
    const auto multiply = context.adapter == nullptr ? parallel_product : frozen_product;
    x = multiply(block, context, product, x);
  }
  return std::move(block).take(x);
}

Block megatron_loss(const MegatronContext& context) {
  BlockBuilder block("loss", context.precision());
  const TensorId logits = block.block_input(context.tokens(context.v), context.policy.weights);
  const TensorId loss = losses_of_tokens(
      block, context, logits, block.shared("labels", {context.b, context.s}, DType::int64));
  if (context.names_embedded()) block.let_go(kEmbedded);
  if (context.adapter != nullptr) block.let_go(kDecoded);
  if (context.decoder.mtp_layers > 0) {
    for (const std::string_view name : {kPredictedLogits, kPredictedLoss, kPredictedLabels}) {
      block.let_go(name);
    }
  }
  return std::move(block).take(loss);
}

}  // namespace memest
