// The modules before and behind the layers: TensorParallelEmbedding, the final norm with lm_head
// and cast_to_fp32, and Loss with _ShardedCrossEntropy.
#include <utility>
#include <vector>

#include "graph/lower/nanotron/nanotron.hpp"

namespace memest {
namespace {

/// An integer or boolean computation without gradient.
TensorId counted(BlockBuilder& block, Place place, const std::vector<TensorId>& inputs,
                 DType dtype) {
  return compute(block, OpKind::mask, inputs, {place, block.tensor(inputs.front()).shape, dtype});
}

/// out * (~input_mask[..., None]): rows of other ranks' ids are zeroed in a tensor of their own.
TensorId masked_rows(BlockBuilder& block, TensorId rows, TensorId mask) {
  const TensorId kept = counted(block, {"embedding", "own rows"}, {mask}, DType::boolean);
  const DType dtype = block.dtype_of(rows);
  const TensorId out = block.make({"embedding", "masked"}, block.tensor(rows).shape, dtype);
  Op op;
  op.kind = OpKind::mask;
  op.name = "embedding";
  op.inputs = {rows, kept};
  op.outputs = {out};
  op.saved = {kept};
  BackwardWriter backward(op);
  backward.give(rows, backward.make(rows, dtype));
  block.emit(std::move(op));
  return out;
}

TensorId looked_up_words(BlockBuilder& block, const MegatronContext& context) {
  const TensorId ids = block.shared("token ids", {context.b, context.s}, DType::int64);
  LookUp part;
  part.count = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  part.table_rows = context.decoder.vocab_size / context.policy.tensor;
  // The ids are turned to lie by position: both passes write them out.
  part.indices_repeat = interleaves(context);
  if (context.policy.tensor == 1) {
    part.table = block.parameter({"embedding", "weight"}, {context.v, context.h});
    const Shape by_position = {context.s, context.b};
    part.indices = interleaves(context) ? block.alias({"embedding", "ids"}, ids, by_position) : ids;
    return look_up(block, "embedding", part);
  }
  Frame call(block);
  const OwnIds own = own_ids(block, "embedding", ids);
  call.local(own.mask);
  part.indices = call.local(own.ids);
  part.table = block.parameter({"embedding", "weight"}, {context.v, context.h});
  const TensorId rows = look_up(block, "embedding", part);
  return masked_rows(block, rows, own.mask);
}

/// _ShardedCrossEntropy.backward: the kept softmax becomes the gradient in place.
void write_softmax_gradient(TensorId logits, TensorId targets, Op& op) {
  BackwardWriter backward(op);
  const TensorId loss = op.outputs.front();
  const auto rows = backward.make(targets, DType::int64);
  const auto flags = backward.make(loss, DType::fp32);
  const auto rest = backward.make(loss, DType::fp32);
  const auto update = backward.make(loss, DType::fp32);
  backward.drop(flags);
  backward.drop(update);
  backward.drop(rest);
  backward.drop(rows);
  backward.give_kept(logits);
}

/// The logits less their maximum, a tensor of its own, become exponentials, then the softmax, in
/// place.
TensorId sharded_cross_entropy(BlockBuilder& block, const MegatronContext& context, TensorId logits,
                               TensorId targets) {
  const Shape tokens = {context.s, context.b};
  Frame call(block);
  const auto make = [&](std::string_view name, const std::vector<TensorId>& inputs, DType dtype) {
    return compute(block, OpKind::softmax, inputs, {{"cross_entropy", name}, tokens, dtype});
  };
  const auto over_ranks = [&](TensorId x) {
    if (context.policy.tensor > 1) {
      block.send_forward({.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes()});
    }
    return x;
  };
  const TensorId highest = call.local(over_ranks(make("maximum", {logits}, DType::fp32)));
  make("its place", {highest}, DType::int64);
  const TensorId scores =
      compute(block, OpKind::softmax, {logits, highest},
              {{"cross_entropy", "less maximum"}, block.tensor(logits).shape, DType::fp32});
  const OwnIds own = own_ids(block, "cross_entropy", targets);
  for (const TensorId local : {own.mask, own.ids}) call.local(local);
  const TensorId positions = call.local(make("positions", {targets}, DType::int64));
  const TensorId picked = make("target's score", {scores, positions}, DType::fp32);
  const TensorId predicted =
      call.local(over_ranks(make("target's own score", {picked}, DType::fp32)));
  const TensorId sum = call.local(over_ranks(make("sum", {scores}, DType::fp32)));
  const TensorId logarithm = make("logarithm", {sum}, DType::fp32);
  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = "cross_entropy";
  op.inputs = {logits, scores, logarithm, predicted};
  const TensorId loss = block.make({"cross_entropy", "loss"}, tokens, DType::fp32);
  op.outputs = {loss};
  op.saved = {scores, own.mask, own.ids};
  write_softmax_gradient(logits, own.ids, op);
  block.emit(std::move(op));
  return loss;
}

}  // namespace

Block nanotron_embedding(const MegatronContext& context) {
  BlockBuilder block("embedding", context.precision());
  TensorId x = looked_up_words(block, context);
  // differentiable_reduce_scatter_sum, or the sum in place.
  if (context.policy.tensor > 1) x = reduced(block, context, "embedding", x);
  return std::move(block).take(x);
}

Block nanotron_head(const MegatronContext& context, bool ties) {
  BlockBuilder block("head", context.precision());
  TensorId x = block.block_input(context.stream(), context.policy.weights);
  x = triton_norm(block, context, "final_norm", x);
  ParallelProduct product{"lm_head", context.h, context.v};
  product.tied = ties;
  x = column_linear(block, context, product, x);
  x = cast(block, {"logits", "in fp32"}, x, DType::fp32);
  return std::move(block).take(x);
}

Block nanotron_loss(const MegatronContext& context) {
  BlockBuilder block("loss", context.precision());
  const TensorId logits = block.block_input(context.tokens(context.v), DType::fp32);
  // LlamaForTraining.forward names them until it returns.
  block.hold_to_end(logits);
  TensorId loss = 0;
  {
    Frame call(block);
    TensorId targets = block.shared("labels", {context.b, context.s}, DType::int64);
    if (interleaves(context)) {
      targets = call.local(counted(block, {"labels", "by position"}, {targets}, DType::int64));
    }
    loss = sharded_cross_entropy(block, context, logits, targets);
  }
  return std::move(block).take(loss);
}

}  // namespace memest
