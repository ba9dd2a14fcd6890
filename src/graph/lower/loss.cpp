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
  // Autocast takes the log-softmax in fp32 and keeps the 16-bit logits as well.
  const bool widens = context.policy.autocast && block.dtype_of(scores) != DType::fp32;
  const DType inner = widens ? DType::fp32 : block.dtype_of(scores);

  Op op;
  op.kind = OpKind::cross_entropy;
  op.name = "loss";
  const TensorId targets = targets_of(block, context);
  const TensorId log_softmax = block.make({"loss", "log-softmax"}, shape, inner);
  const TensorId weight = block.make({"loss", "total weight"}, {Expr(1)}, inner);
  const TensorId loss = block.make({"loss"}, {Expr(1)}, inner);
  op.inputs = {scores, targets};
  op.outputs = {loss, log_softmax, weight};
  op.saved = {log_softmax, targets, weight};
  if (widens) {
    op.saved.push_back(scores);
    op.forward_scratch = {scratch(block, {"loss", "logits in fp32"}, shape, DType::fp32)};
  }
  op.backward_scratch = {scratch(block, {"loss", "log-softmax gradient"}, shape, inner)};
  block.emit(std::move(op));
  return std::move(block).take();
}

}  // namespace memest
