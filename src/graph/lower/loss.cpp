#include <utility>

#include "decoder_context.hpp"
#include "operations.hpp"

namespace memest {
namespace {

Precision precision_of(const DecoderContext& context) {
  return {context.policy.weights, context.policy.compute, context.policy.autocast};
}

/// The type of the logits as the head leaves them.
DType logits_type(const LoweringPolicy& policy) {
  return policy.autocast ? policy.compute : policy.weights;
}

/// The targets: the labels shifted into a padded copy, of which b = 1 keeps one token more since it
/// is then a view (transformers); the batch's own tensor elsewhere.
TensorId targets_of(BlockBuilder& block, const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  if (!context.transformers()) return block.shared("token ids", dims.rows(), DType::int64);
  const Expr tokens = dims.b * dims.s;
  const Expr count = context.policy.micro_batch == 1 ? tokens + Expr(1) : tokens;
  return block.make({"loss", "shifted labels"}, {count}, DType::int64, Role::input);
}

/// Keeps its result.
TensorId log_softmax(BlockBuilder& block, TensorId scores) {
  const TensorId out =
      block.make({"log_softmax"}, block.tensor(scores).shape, block.dtype_of(scores));
  Op op;
  op.kind = OpKind::softmax;
  op.name = "log_softmax";
  op.inputs = {scores};
  op.outputs = {out};
  op.saved = {out};
  block.emit(std::move(op));
  return out;
}

}  // namespace

Block head_block(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const Dimensions& dims = context.dims;
  BlockBuilder block("head", precision_of(context));
  TensorId x = block.block_input({dims.b, dims.stream_s, dims.h}, context.policy.weights);
  if (decoder.final_norm) x = norm(block, context, {"final_norm", decoder.norm, {dims.h}}, x);
  if (decoder.embedding_size != decoder.hidden_size) {
    x = linear(block, {"project_out", dims.h, dims.embedding}, dims.rows(), x);
  }
  x = linear(block, {"lm_head", dims.embedding, dims.v, decoder.head_bias, decoder.tied_embeddings},
             dims.rows(), x);
  if (decoder.scaled_logits) x = scale(block, "logit_scale", x);
  if (decoder.logit_softcap) softcap(block, "logit_softcap", x);
  return std::move(block).take();
}

Block loss_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", precision_of(context));
  const Shape shape = {dims.b, dims.s, dims.v};
  const TensorId logits = block.block_input(shape, logits_type(context.policy));
  const bool upcasts = context.policy.implementation.loss == LossKernel::upcast;
  const TensorId scores = upcasts ? cast(block, {"logits_in_fp32"}, logits, DType::fp32) : logits;

  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = "loss";
  const TensorId targets = targets_of(block, context);
  if (context.policy.autocast && block.dtype_of(scores) != DType::fp32) {
    // Autocast leaves the log-softmax in 16 bit and takes the likelihood in fp32: both are kept.
    const TensorId narrow = log_softmax(block, scores);
    const TensorId wide = cast(block, {"log_softmax_in_fp32"}, narrow, DType::fp32);
    const TensorId loss = block.make({"loss"}, {Expr(1)}, DType::fp32);
    const TensorId weight = block.make({"loss", "total weight"}, {Expr(1)}, DType::fp32);
    op.inputs = {wide, targets};
    op.outputs = {loss, weight};
    op.saved = {wide, targets, weight};
  } else {
    const DType inner = block.dtype_of(scores);
    const TensorId kept = block.make({"loss", "log-softmax"}, shape, inner);
    const TensorId weight = block.make({"loss", "total weight"}, {Expr(1)}, inner);
    const TensorId loss = block.make({"loss"}, {Expr(1)}, inner);
    op.inputs = {scores, targets};
    op.outputs = {loss, kept, weight};
    op.saved = {kept, targets, weight};
    op.backward_scratch = {scratch(block, {"loss", "log-softmax gradient"}, shape, inner)};
  }
  block.emit(std::move(op));
  return std::move(block).take();
}

}  // namespace memest
