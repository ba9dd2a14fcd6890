#include <array>
#include <string_view>
#include <utility>

#include "graph/lower/adapters/prompt.hpp"
#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/positions.hpp"
#include "graph/lower/distillation/distillation.hpp"
#include "graph/lower/liger/liger.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/ops/tensor_parallel.hpp"
#include "graph/lower/trl/trl.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

/// Tensors that the model's forward holds in locals until its last norm has run.
constexpr std::array<std::string_view, 19> kModelLocals = {
    "attention mask",   "image blocks",  "alibi",        "position ids",
    "causal mask",      "sliding mask",  "boolean mask", "alibi mask",
    "input embeddings", "position rows", "cos",          "sin",
    "local cos",        "local sin",     kRotaryAngles,  kComplexRotations,
    "image embeddings", "image mask",    "video mask"};

/// The type of the logits as the head leaves them.
DType logits_type(const LoweringPolicy& policy) {
  return policy.autocast ? policy.compute : policy.weights;
}

/// The targets of the loss, [b, s] or [b·s] in int64. Labels shifted in a padded copy are a view of
/// it where b = 1, and are copied elsewhere.
TensorId targets_of(BlockBuilder& block, const DecoderContext& context, Frame& frame) {
  const Dimensions& dims = context.dims;
  const Targets targets = context.program.targets;
  if (targets == Targets::second_tensor) return block.shared("labels", dims.rows(), DType::int64);
  const std::string_view name = context.virtual_tokens() > 0 ? kPromptedLabels : "token ids";
  const TensorId ids = block.shared(name, dims.rows(), DType::int64);
  // ForCausalLMLoss: pad(labels, (0, 1)) and labels[..., 1:].contiguous(); the plain loop hands the
  // token ids in as labels.
  if (targets == Targets::token_ids) return ids;
  // _inductor/ir.py, Layout.pad_strides: rows of s + 1 begin at multiples of 16.
  const Shape traced = {(dims.b - Expr(1)) * (dims.s + Expr(16)) + dims.s + Expr(1)};
  const Shape rows = {dims.b, dims.s + Expr(1)};
  const bool whole = context.compiles_whole();
  const TensorId padded =
      frame.local(compute(block, OpKind::copy, {ids},
                          {{"shift_labels", "padded"}, whole ? traced : rows, DType::int64}));
  const Shape tokens = {dims.b * dims.s};
  if (context.policy.micro_batch == 1 || whole)
    return view(block, {"shift_labels", "shifted"}, padded, tokens);
  return compute(block, OpKind::copy, {padded},
                 {{"shift_labels", "shifted"}, tokens, DType::int64});
}

/// The locals of the outermost forward end.
void end_of_model(BlockBuilder& block, const DecoderContext& context) {
  if (context.program.names_results) block.let_go("last hidden state");
  if (context.virtual_tokens() > 0) {
    for (const std::string_view name : kPromptLocals) block.let_go(name);
  }
  if (context.program.locals_end != LocalsEnd::with_loss) return;
  for (const std::string_view name : kModelLocals) block.let_go(name);
}

/// Whether the loss is the sum of what the head's product makes.
bool sums_logits_as_they_are(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  return context.policy.end == ForwardEnd::sum_of_logits && !context.policy.autocast &&
         !decoder.scaled_logits && !decoder.logit_softcap;
}

/// As torch.compile writes it where each rank has the logits of a shard of the vocabulary.
Block compiled_shards_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const TensorId logits = block.block_input({dims.b, dims.s, dims.v}, logits_type(context.policy));
  const TensorId targets = block.shared("labels", dims.rows(), DType::int64);
  const TensorId loss = compiled_loss_of_shards(block, context, logits, targets);
  Block written = std::move(block).take(loss);
  written.compiled = true;
  return written;
}

/// The loss from the last hidden state: Liger's loss multiplies by the output head itself
/// (LigerForCausalLMLoss).
Block fused_loss_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const TensorId hidden = block.block_input({dims.b, dims.s, dims.h}, context.policy.weights);
  TensorId loss = 0;
  {
    Frame frame(block);
    const TensorId targets = frame.local(targets_of(block, context, frame));
    loss = liger_loss(block, context, hidden, targets);
    if (row_of(context.policy.implementation.loop).divides_by_targets) {
      loss = scale(block, {"loss_over_targets"}, loss);
    }
  }
  end_of_model(block, context);
  return std::move(block).take(loss);
}

/// The sum of the logits, in their type; under autocast in fp32. Its gradient is a number, seen as
/// the logits, which autocast's is cast to.
Block sum_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const TensorId logits = block.block_input({dims.b, dims.s, dims.v}, logits_type(context.policy));
  const DType dtype = context.policy.autocast ? DType::fp32 : block.dtype_of(logits);
  const TensorId loss = block.make({"sum"}, {Expr(1)}, dtype);
  Op op;
  op.kind = OpKind::reduce;
  op.name = "sum";
  op.inputs = {logits};
  op.outputs = {loss};
  KernelLaunch sum;
  sum.reduced = block.tensor(logits).elements();
  sum.dtype = block.dtype_of(logits);
  op.forward_launches = {std::move(sum)};
  BackwardWriter backward(op);
  if (context.policy.autocast) {
    backward.leave_node();
    backward.give(logits, backward.make(logits, block.dtype_of(logits)));
  } else {
    backward.hand_on(logits, Reach::through_view);
  }
  block.emit(std::move(op));
  return std::move(block).take(loss);
}

}  // namespace

Block head_block(const DecoderContext& context, bool input_wants_gradient) {
  const DecoderSpec& decoder = context.decoder;
  const Dimensions& dims = context.dims;
  BlockBuilder block("head", context.precision());
  TensorId x = block.block_input({dims.b, dims.stream_s, dims.h}, context.policy.weights,
                                 input_wants_gradient);
  {
    Frame model(block);
    model.local(x);
    block.let_input_go();
    if (decoder.final_norm) x = norm(block, context, {"final_norm", decoder.norm, {dims.h}}, x);
    // OPTDecoder.project_out, between the last norm and lm_head.
    if (decoder.embedding_size != decoder.hidden_size) {
      x = linear(block, {"project_out", dims.h, dims.embedding}, {dims.rows(), x});
    }
  }
  const bool fused = context.liger().fused_linear_cross_entropy || takes_tiles(context);
  if (decoder.final_norm && context.program.names_results && !fused) {
    block.outlive(x, "last hidden state");
  }
  if (context.program.locals_end == LocalsEnd::before_head) {
    for (const std::string_view name : kModelLocals) block.let_go(name);
  }
  if (fused) return std::move(block).take(x);
  Shape rows = dims.rows();
  // lm_head(hidden_states[:, -1:, :]), as generate() asks with logits_to_keep=1.
  if (context.policy.end == ForwardEnd::last_logits) {
    rows.back() = Expr(1);
    x = slice(block, {"last_hidden_state", "last token"}, x, {dims.b, Expr(1), dims.embedding});
  }
  const FsdpUnits& units = row_of(context.policy.implementation.framework).units;
  // torchtitan's apply_fsdp shards tok_embeddings and [norm, output] as two units: a tied table is
  // a parameter of both.
  Projection2d to_logits{"lm_head", dims.embedding, dims.v, decoder.head_bias,
                         decoder.tied_embeddings && !units.gathers_tied_twice};
  to_logits.gradient_is_number = sums_logits_as_they_are(context);
  {
    Frame call(block);
    const TensorId normalized = x;
    x = gathered(block, context, "final_norm", x);
    if (context.shards_tensors()) {
      for (const TensorId id : {x, normalized}) call.local(id);
    }
    x = projection(block, context, to_logits, {rows, x});
    x = gathered_logits(block, context, x);
  }
  if (decoder.scaled_logits) x = scale(block, {"logit_scale"}, x);
  if (decoder.logit_softcap) x = softcap(block, "logit_softcap", x);
  // A distillation takes its loss behind the model's forward.
  if (context.policy.end != ForwardEnd::cross_entropy || context.policy.teacher != nullptr) {
    end_of_model(block, context);
  }
  return std::move(block).take(x);
}

Block loss_block(const DecoderContext& context) {
  if (context.policy.end == ForwardEnd::sum_of_logits) return sum_block(context);
  if (takes_tiles(context)) {
    return prefers(context) ? preference_loss_block(context) : sft_loss_block(context);
  }
  if (context.liger().fused_linear_cross_entropy) return fused_loss_block(context);
  const bool shards = context.shards_tensors() && context.policy.implementation.loss_parallel;
  if (shards && context.compiles_loss()) return compiled_shards_block(context);
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const Shape shape = {dims.b, dims.s, shards ? dims.v : Expr(Symbol::vocab_size)};
  const TensorId logits = block.block_input(shape, logits_type(context.policy));
  TensorId loss = 0;
  {
    Frame frame(block);
    const bool upcasts =
        context.policy.implementation.loss == LossKernel::upcast || context.program.widens_logits;
    TensorId scores = logits;
    if (upcasts) {
      scores = cast(block, {"logits_in_fp32"}, logits, DType::fp32);
      if (scores != logits) frame.local(scores);
    }
    const TensorId targets = targets_of(block, context, frame);
    TensorId kept = frame.local(shards ? log_softmax_of_shards(block, context, scores)
                                       : log_softmax(block, "log_softmax", scores));
    // Autocast leaves a 16-bit log-softmax as it is and takes the likelihood in fp32.
    // cross_entropy_loss calls log_softmax with self.scalar_type(), which fp32_set_opt_dtype
    // leaves; nll_loss is one of AT_FORALL_FP32 (autocast_mode.h).
    if (context.policy.autocast) kept = cast(block, {"log_softmax_in_fp32"}, kept, DType::fp32);
    loss = shards ? likelihood_of_shards(block, context, kept, targets)
                  : negative_likelihood(block, kept, targets);
    // The Trainer has the sum divided by the targets of the whole step. Their number is its own,
    // and lives longer than the graph.
    // fixed_cross_entropy: reduction "sum", then loss / num_items_in_batch.
    if (row_of(context.policy.implementation.loop).divides_by_targets) {
      loss = scale(block, {"loss_over_targets"}, loss);
    }
  }
  if (context.policy.teacher != nullptr) {
    return std::move(block).take(distillation_loss(block, context, logits, loss));
  }
  end_of_model(block, context);
  return std::move(block).take(loss);
}

}  // namespace memest
