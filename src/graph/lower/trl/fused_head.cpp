// trl 1.16, trainer/utils.py: add_fused_lm_head.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/trl/trl.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

constexpr std::array<std::string_view, 3> kNumbers = {"entropy", "mean_logits", "is_top1"};

/// The names of what `asked` has the head answer.
std::vector<std::string_view> names_of(AskedNumbers asked) {
  std::vector<std::string_view> names;
  if (asked.entropy_and_top1) names.push_back(kNumbers[0]);
  if (asked.mean_logits) names.push_back(kNumbers[1]);
  if (asked.entropy_and_top1) names.push_back(kNumbers[2]);
  return names;
}

/// -log_probs.sum() / mask.sum().clamp(min=1)
void own_loss(BlockBuilder& block, HeadAnswer& answer) {
  constexpr std::string_view kName = "own_loss";
  const TensorId sum = reduced_to_number(block, {kName, "sum"}, answer.log_probs, DType::fp32);
  const TensorId negative = reduced_to_number(block, {kName, "negative"}, sum, DType::fp32);
  const TensorId count = counted_flags(block, {kName, "targets"}, answer.mask);
  const TensorId some = reduced_to_number(block, {kName, "one at least"}, count, DType::int64);
  const TensorId loss =
      compute(block, OpKind::scale, {negative, some}, {{kName}, {Expr(1)}, DType::fp32});
  answer.own_loss = {some, loss};
}

bool makes_masks(const DecoderContext& context) {
  if (context.policy.implementation.attention == AttentionKernel::eager) return true;
  return std::ranges::any_of(context.decoder.kinds, [&](const LayerKind& kind) {
    return attention_call(context, kind).masked;
  });
}

// The last token predicts nothing, the first is none's target.
HeadAnswer answer_of_model(BlockBuilder& block, const DecoderContext& context,
                           const HeadCall& call) {
  const Dimensions& dims = context.dims;
  const Shape shape = {dims.b, dims.s - Expr(1)};
  const Expr tokens = dims.b * targets_of_sequence(context);
  Frame forward(block);
  forward.local(call.hidden);
  block.let_input_go();
  HeadAnswer answer;
  answer.mask = forward.local(
      compute(block, OpKind::mask, {call.labels}, {{"labels", "mask"}, shape, DType::boolean}));
  const TensorId weight = head_weight(block, context);
  if (block.tensor(weight).role != Role::parameter) forward.local(weight);
  const TensorId predicting = slice(block, {"last_hidden_state", "predicting"}, call.hidden,
                                    {dims.b, shape[1], dims.embedding});
  const TensorId rows = selected_rows(
      block, {"last_hidden_state", predicting, answer.mask, {tokens, dims.embedding}});
  const TensorId labels = block.alias({"labels", "shifted"}, call.labels, shape);
  const TensorId targets = selected_rows(block, {"labels", labels, answer.mask, {tokens}});
  const TargetScores scores = scores_of_tiles(block, context, {rows, weight, targets}, call.asked);
  {
    Frame generator(block);
    generator.local(scores.log_probs);
    answer.log_probs = scattered(block, {"log_probs", scores.log_probs, answer.mask});
    const std::vector<std::string_view> names = names_of(call.asked);
    for (std::size_t i = 0; i < scores.others.size(); ++i) {
      generator.local(scores.others[i]);
      answer.others.push_back(scattered(block, {names[i], scores.others[i], answer.mask}));
    }
  }
  own_loss(block, answer);
  return answer;
}

}  // namespace

bool takes_tiles(const DecoderContext& context) {
  const LoopRow& loop = row_of(context.policy.implementation.loop);
  return loop.takes_tiles && (context.policy.gradients || loop.prefers);
}

Expr targets_of_sequence(const DecoderContext& context) {
  const LoweringPolicy& policy = context.policy;
  if (policy.completion_len > 0) return Expr(policy.targets());
  return context.dims.s - (policy.joined ? context.dims.documents : Expr(1));
}

DType hidden_type(const DecoderContext& context) {
  const bool widened = context.policy.autocast && context.decoder.norm.kind == NormKind::layernorm;
  return widened ? DType::fp32 : context.policy.weights;
}

DType answer_type(const DecoderContext& context) {
  return context.policy.stored ? context.policy.weights : DType::fp32;
}

bool passes_token_mask(const DecoderContext& context) {
  return row_of(context.policy.implementation.loop).passes_token_mask && !context.joins_sequences();
}

bool prefers(const DecoderContext& context) {
  return row_of(context.policy.implementation.loop).prefers;
}

std::optional<Unavailable> trl_refusal(const DecoderContext& context) {
  if (!takes_tiles(context)) return std::nullopt;
  const Habits& habits = context.habits;
  if (context.policy.seq_len < 2) {
    return Unavailable{"TRL's loss is one of each next token: one token has none"};
  }
  if (habits.positions_from_mask || habits.alibi != AlibiWriting::none || makes_masks(context)) {
    return Unavailable{
        "TRL's trainers pass a mask of tokens, from which this attention makes masks of every "
        "sequence's own: that is not available yet"};
  }
  if (context.decoder.head_bias || context.decoder.embedding_size != context.decoder.hidden_size ||
      context.decoder.experts() != nullptr || context.latent() != nullptr) {
    return Unavailable{
        "TRL's trainers with experts, latent attention, a bias of the output head or embeddings "
        "of another width are not available yet"};
  }
  return std::nullopt;
}

TensorId reduced_to_number(BlockBuilder& block, Place place, TensorId of, DType dtype) {
  return compute(block, OpKind::reduce, {of}, {place, {Expr(1)}, dtype});
}

TensorId counted_flags(BlockBuilder& block, Place place, TensorId flags) {
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

HeadAnswer fused_head(BlockBuilder& block, const DecoderContext& context, const HeadCall& call) {
  HeadAnswer answer = answer_of_model(block, context, call);
  if (context.policy.stored) cast_model_answer(block, answer, context.policy.weights);
  block.ops().back().ends_autocast = true;
  if (context.policy.copies_answers) copy_model_answer(block, answer);
  return answer;
}

}  // namespace memest
