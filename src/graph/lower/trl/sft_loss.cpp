// trl 1.16: trainer/utils.py (add_fused_lm_head) and trainer/sft_trainer.py (compute_loss).
#include <algorithm>
#include <string_view>
#include <utility>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/trl/trl.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

constexpr std::string_view kReport = "report";

/// A number made of `inputs`.
TensorId number(BlockBuilder& block, Place place, TensorId of, DType dtype) {
  return compute(block, OpKind::reduce, {of}, {place, {Expr(1)}, dtype});
}

/// torch.sum of booleans sums them as integers of 64 bits.
TensorId count_of(BlockBuilder& block, Place place, TensorId flags) {
  const TensorId count = block.make(place, {Expr(1)}, DType::int64);
  const TensorId wide =
      scratch(block, {place.op, "flags in int64"}, block.tensor(flags).shape, DType::int64);
  Op op;
  op.kind = OpKind::reduce;
  op.name = place.op;
  op.inputs = {flags};
  op.outputs = {count};
  op.forward_scratch = {wide};
  KernelLaunch sum;
  sum.reduced = block.tensor(flags).elements();
  sum.dtype = DType::int64;
  op.forward_launches = {std::move(sum)};
  // The number is there before what it is summed from.
  op.forward_steps = {
      {StepKind::allocate, 1}, {StepKind::allocate, 0}, {StepKind::launch, 0}, {StepKind::free, 0}};
  block.emit(std::move(op));
  return count;
}

/// `x` over a number that is a tensor, which is kept.
TensorId divided(BlockBuilder& block, Place place, TensorId x, TensorId by) {
  const TensorId out = block.make(place, block.tensor(x).shape, block.dtype_of(x));
  Op op;
  op.kind = OpKind::scale;
  op.name = place.op;
  op.inputs = {x, by};
  op.outputs = {out};
  op.saved = {by};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

struct Answer {
  TensorId log_probs = 0;
  TensorId entropy = 0;
  TensorId is_top1 = 0;
  TensorId mask = 0;
};

/// The loss of the model itself, which nothing reads; the caller has it first.
void own_loss(BlockBuilder& block, const Answer& answer, Frame& caller) {
  constexpr std::string_view kName = "own_loss";
  const TensorId sum = number(block, {kName, "sum"}, answer.log_probs, DType::fp32);
  const TensorId negative = number(block, {kName, "negative"}, sum, DType::fp32);
  const TensorId count = count_of(block, {kName, "targets"}, answer.mask);
  const TensorId some = caller.local(number(block, {kName, "one at least"}, count, DType::int64));
  caller.local(compute(block, OpKind::scale, {negative, some}, {{kName}, {Expr(1)}, DType::fp32}));
}

/// _fused_forward behind the backbone: the last token predicts nothing, the first is none's target.
Answer fused_forward(BlockBuilder& block, const DecoderContext& context, TensorId hidden,
                     Frame& caller) {
  const Dimensions& dims = context.dims;
  const Shape shape = {dims.b, dims.s - Expr(1)};
  const Expr tokens = shape[0] * shape[1];
  Frame forward(block);
  forward.local(hidden);
  block.let_input_go();
  const TensorId ids = block.shared("token ids", dims.rows(), DType::int64);
  Answer answer;
  answer.mask = caller.local(
      compute(block, OpKind::mask, {ids}, {{"labels", "mask"}, shape, DType::boolean}));
  const TensorId predicting =
      slice(block, {"last_hidden_state", "predicting"}, hidden, {dims.b, shape[1], dims.embedding});
  const TensorId rows = selected_rows(
      block, {"last_hidden_state", predicting, answer.mask, {tokens, dims.embedding}});
  const TensorId labels = block.alias({"labels", "shifted"}, ids, shape);
  const TensorId targets = selected_rows(block, {"labels", labels, answer.mask, {tokens}});
  const TargetScores scores = scores_of_tiles(block, context, rows, targets);
  {
    Frame generator(block);
    for (const TensorId id : {scores.log_probs, scores.is_top1}) generator.local(id);
    answer.log_probs = scattered(block, {"log_probs", scores.log_probs, answer.mask});
    answer.entropy = scattered(block, {"entropy", scores.entropy, answer.mask});
    answer.is_top1 = scattered(block, {"is_top1", scores.is_top1, answer.mask});
  }
  own_loss(block, answer, caller);
  for (const TensorId id : {answer.log_probs, answer.entropy, answer.is_top1}) caller.local(id);
  return answer;
}

/// The trainer logs entropy, accuracy and the number of tokens, gathered of one rank.
void report(BlockBuilder& block, const DecoderContext& context, const Answer& answer,
            Frame& function) {
  const auto summed = [&](std::string_view name, TensorId own) {
    return function.local(number(block, {kReport, name}, own, block.dtype_of(own)));
  };
  const TensorId valid =
      summed("targets of all ranks", count_of(block, {kReport, "targets"}, answer.mask));
  const TensorId entropy = summed("entropy of all ranks",
                                  number(block, {kReport, "entropy"}, answer.entropy, DType::fp32));
  const TensorId correct =
      summed("correct of all ranks", count_of(block, {kReport, "correct"}, answer.is_top1));
  number(block, {kReport, "some"}, valid, DType::boolean);
  number(block, {kReport, "mean entropy"}, entropy, DType::fp32);
  number(block, {kReport, "some again"}, valid, DType::boolean);
  number(block, {kReport, "accuracy"}, correct, DType::fp32);
  const TensorId ids = block.shared("token ids", context.dims.rows(), DType::int64);
  const TensorId tokens = number(block, {kReport, "tokens"}, ids, DType::int64);
  number(block, {kReport, "tokens of all ranks"}, tokens, DType::int64);
}

bool makes_masks(const DecoderContext& context) {
  if (context.policy.implementation.attention == AttentionKernel::eager) return true;
  return std::ranges::any_of(context.decoder.kinds, [&](const LayerKind& kind) {
    return attention_call(context, kind).masked;
  });
}

}  // namespace

bool takes_tiles(const DecoderContext& context) {
  return row_of(context.policy.implementation.loop).takes_tiles && context.policy.gradients;
}

bool passes_token_mask(const DecoderContext& context) {
  return row_of(context.policy.implementation.loop).passes_token_mask;
}

std::optional<Unavailable> trl_refusal(const DecoderContext& context) {
  if (!takes_tiles(context)) return std::nullopt;
  const Habits& habits = context.habits;
  if (context.policy.seq_len < 2) {
    return Unavailable{"SFTTrainer takes the loss of each next token: one token has none"};
  }
  if (habits.positions_from_mask || habits.alibi != AlibiWriting::none || makes_masks(context)) {
    return Unavailable{
        "SFTTrainer passes a mask of tokens, from which this attention makes masks of every "
        "sequence's own: that is not available yet"};
  }
  if (context.decoder.head_bias || context.decoder.embedding_size != context.decoder.hidden_size ||
      context.decoder.experts() != nullptr || context.latent() != nullptr) {
    return Unavailable{
        "SFTTrainer with experts, latent attention, a bias of the output head or embeddings of "
        "another width is not available yet"};
  }
  return std::nullopt;
}

TensorId sft_loss(BlockBuilder& block, const DecoderContext& context, TensorId hidden) {
  Frame function(block);
  const Answer answer = fused_forward(block, context, hidden, function);
  const TensorId losses = function.local(scale(block, {"loss", "of a token"}, answer.log_probs));
  const TensorId sum = sum_of_all(block, {"loss", "sum"}, losses);
  const TensorId targets =
      compute(block, OpKind::copy, {}, {{"loss", "targets"}, {Expr(1)}, DType::int64});
  const TensorId mean = divided(block, {"loss", "mean"}, sum, targets);
  // average_tokens_across_devices: times the number of processes.
  const TensorId loss = scale(block, {"loss"}, mean);
  report(block, context, answer, function);
  return loss;
}

}  // namespace memest
