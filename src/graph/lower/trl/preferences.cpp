// trl 1.16, trainer/dpo_trainer.py: _compute_loss with its defaults (sigmoid, reverse KL).
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/trl/trl.hpp"
#include "memest/spec/compression/teacher.hpp"

namespace memest {
namespace {

constexpr std::string_view kReported = "report";

/// log_probs[:, -n:].sum(dim=1): the gradient is seen along a row, and set in zeros like the whole.
TensorId sequence_sums(BlockBuilder& block, Place place, TensorId x) {
  const Shape& whole = block.tensor(x).shape;
  const TensorId out = block.make(place, {whole.front()}, block.dtype_of(x));
  Op op;
  op.kind = OpKind::reduce;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  KernelLaunch sum;
  sum.outer = whole[0];
  sum.reduced = whole[1];
  sum.dtype = block.dtype_of(x);
  op.forward_launches = {std::move(sum)};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

/// The mean of all, whose gradient is one of each.
TensorId mean_of(BlockBuilder& block, Place place, TensorId x) {
  const TensorId out = block.make(place, {Expr(1)}, block.dtype_of(x));
  Op op;
  op.kind = OpKind::reduce;
  op.name = place.op;
  op.inputs = {x};
  op.outputs = {out};
  BackwardWriter backward(op);
  backward.give(x, backward.make(x, block.dtype_of(x)));
  block.emit(std::move(op));
  return out;
}

/// The head of a reference that is a model of its own is asked for no more than log-probabilities.
AskedNumbers asked_of(const DecoderContext& context) {
  const bool reference = !context.policy.gradients;
  const bool alone = reference && !context.policy.reference_is_model;
  return alone ? AskedNumbers{} : AskedNumbers{true, true};
}

/// _compute_loss from the log-probabilities on. Its names end when it returns.
class PreferenceLoss {
 public:
  PreferenceLoss(BlockBuilder& block, const DecoderContext& context)
      : block_(block),
        context_(context),
        dims_(context.dims),
        answer_(answer_type(context)),
        pairs_{Expr(context.policy.micro_batch / 2)},
        tokens_{pairs_[0], context.dims.s - Expr(1)},
        function_(block) {}

  TensorId write() {
    const Shape all = {dims_.b, tokens_[1]};
    const TensorId model = block_.block_input(all, answer_);
    const TensorId log_probs = local(sequence_sums(block_, {"log_probs", "of sequences"}, model));
    const TensorId answered = block_.shared(kReferenceLogProbs, all, answer_);
    const TensorId reference =
        local(sequence_sums(block_, {"reference", "of sequences"}, answered));
    const TensorId loss = loss_of(log_probs, reference);
    report();
    return loss;
  }

 private:
  TensorId local(TensorId id) { return function_.local(id); }

  TensorId loss_of(TensorId log_probs, TensorId reference) {
    const auto of_reference = [&](std::string_view name) {
      return block_.alias({"reference", name}, reference, pairs_);
    };
    parts_ = split(block_, "log_probs", log_probs,
                   {{{"log_probs", "chosen"}, pairs_}, {{"log_probs", "rejected"}, pairs_}});
    const TensorId chosen =
        local(subtract(block_, {"chosen", "log-ratio"}, parts_[0], of_reference("chosen")));
    const TensorId rejected =
        local(subtract(block_, {"rejected", "log-ratio"}, parts_[1], of_reference("rejected")));
    const TensorId delta = local(subtract(block_, {"delta", "score"}, chosen, rejected));
    const TensorId scaled = scale(block_, {"delta", "times beta"}, delta);
    const TensorId sigmoid = function(block_, {"delta", "log-sigmoid"}, Keeps::input, scaled);
    const TensorId negative = local(scale(block_, {"loss", "of a pair"}, sigmoid));
    const TensorId mean = mean_of(block_, {"loss", "mean"}, negative);
    const TensorId weighted = scale(block_, {"loss", "weighted"}, mean);
    return add_number(block_, {"loss"}, weighted);
  }

  struct Form {
    Shape shape;
    DType dtype;
  };
  TensorId made(OpKind kind, std::string_view name, const std::vector<TensorId>& of,
                const Form& form) {
    return compute(block_, kind, of, {{kReported, name}, form.shape, form.dtype});
  }
  TensorId number(std::string_view name, DType dtype, const std::vector<TensorId>& of = {}) {
    return made(OpKind::reduce, name, of, {{Expr(1)}, dtype});
  }

  TensorId gathered(std::string_view name, TensorId own, Gathered kind = Gathered::number) {
    return gathered_report(block_, context_, {{kReported, name}, own, kind});
  }
  /// x = gather(x).sum(): the name takes what all ranks have together.
  TensorId sum_in_place(std::string_view gather, std::string_view sum, TensorId own) {
    Frame name(block_);
    name.local(own);
    return number(sum, block_.dtype_of(own), {gathered(gather, own)});
  }
  /// A name for what all ranks have, each a number a pair; where one rank does it is `own`'s.
  TensorId of_ranks(std::string_view name, TensorId own) {
    const TensorId all = gathered(name, own, Gathered::vector);
    return all == own ? own : local(all);
  }
  void mean_of_ranks(std::string_view name, std::string_view mean, TensorId own) {
    number(mean, block_.dtype_of(own), {of_ranks(name, own)});
  }

  /// The trainer logs this, gathered of all ranks.
  void report() {
    {
      Frame counted(block_);
      const TensorId tokens = counted.local(report_entropy());
      number("some", DType::boolean, {tokens});
      number("mean entropy", answer_, {tokens});
      number("tokens of all ranks", DType::int64,
             {gathered("gathered tokens", number("tokens", DType::int64))});
      report_logits();
      const TensorId flags = made(OpKind::mask, "chosen", {}, {tokens_, DType::boolean});
      hits_ = local(made(OpKind::mask, "hits", {flags}, {tokens_, DType::boolean}));
      chosen_ = number("chosen tokens", DType::int64);
    }
    report_accuracy();
    report_rewards();
  }

  /// Answers the number of tokens.
  TensorId report_entropy() {
    const TensorId entropies =
        made(OpKind::multiply, "entropies", {}, {{dims_.b, tokens_[1]}, answer_});
    const TensorId entropy = number("entropy", answer_, {entropies});
    const TensorId tokens = number("completion tokens", DType::int64);
    local(sum_in_place("gathered entropy", "entropy of all ranks", entropy));
    return sum_in_place("gathered completion tokens", "completion tokens of all ranks", tokens);
  }

  /// The sum of the mean logits of an answer's tokens, and their number.
  void sum_logits(std::string_view answer, std::vector<TensorId>& sums) {
    const TensorId flags = made(OpKind::mask, answer, {}, {tokens_, DType::boolean});
    const TensorId logits = block_.shared("mean logits", tokens_, answer_);
    const TensorId selected =
        selected_rows(block_, {answer, logits, flags, {pairs_[0] * targets_of_sequence(context_)}});
    sums.push_back(number(answer, answer_, {selected}));
    sums.push_back(number(answer, DType::int64));
  }
  void report_logits() {
    std::vector<TensorId> sums;
    sum_logits("chosen logits", sums);
    sum_logits("rejected logits", sums);
    for (const TensorId sum : sums) sum_in_place("gathered logits", "of all ranks", sum);
  }

  void report_accuracy() {
    const TensorId correct =
        local(gathered("gathered correct", counted_flags(block_, {kReported, "correct"}, hits_)));
    const TensorId tokens = local(gathered("gathered chosen tokens", chosen_));
    const TensorId all = local(number("all chosen tokens", DType::int64, {tokens}));
    number("some chosen", DType::boolean, {all});
    const TensorId sum = number("all correct", DType::int64, {correct});
    number("accuracy", DType::fp32, {sum, all});
  }

  void report_rewards() {
    const auto of_pairs = [this](OpKind kind, std::string_view name,
                                 const std::vector<TensorId>& of) {
      return made(kind, name, of, {pairs_, kind == OpKind::cast ? DType::fp32 : answer_});
    };
    const TensorId chosen = local(of_pairs(OpKind::scale, "chosen rewards", {}));
    const TensorId rejected = local(of_pairs(OpKind::scale, "rejected rewards", {}));
    const TensorId all_chosen = of_ranks("all chosen rewards", chosen);
    const TensorId all_rejected = of_ranks("all rejected rewards", rejected);
    number("chosen reward", answer_, {all_chosen});
    number("rejected reward", answer_, {all_rejected});
    const TensorId wins = made(OpKind::mask, "wins", {chosen, rejected}, {pairs_, DType::boolean});
    const TensorId accuracies = local(of_pairs(OpKind::cast, "reward accuracies", {wins}));
    mean_of_ranks("all reward accuracies", "reward accuracy", accuracies);
    const TensorId margins = local(of_pairs(OpKind::add, "margins", {chosen, rejected}));
    mean_of_ranks("all margins", "margin", margins);
    report_log_probs("all chosen log-probabilities", "chosen log-probability", parts_[0]);
    report_log_probs("all rejected log-probabilities", "rejected log-probability", parts_[1]);
  }

  void report_log_probs(std::string_view gather, std::string_view mean, TensorId own) {
    number(mean, answer_, {gathered(gather, own, Gathered::vector)});
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
  DType answer_;  ///< of log-probabilities and all that is made of them
  Shape pairs_;
  Shape tokens_;  ///< of one answer of each pair
  Frame function_;
  std::vector<TensorId> parts_;  ///< log-probabilities of chosen and rejected sequences
  TensorId hits_ = 0;
  TensorId chosen_ = 0;
};

}  // namespace

Block sequence_log_probs_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("log-probabilities", context.precision());
  const TensorId hidden = block.block_input({dims.b, dims.s, dims.h}, hidden_type(context));
  const TensorId labels = block.shared(kCompletionLabels, dims.rows(), DType::int64);
  const HeadAnswer answer = fused_head(block, context, {hidden, labels, asked_of(context)});
  block.answer(answer.mask);
  for (const TensorId id : answer.others) block.answer(id);
  block.answer(answer.own_loss.loss);
  // The graph of that loss keeps its number of targets.
  const std::optional<TensorId>& targets = answer.own_loss.targets;
  if (context.policy.gradients && targets) block.answer(*targets);
  return std::move(block).take(answer.log_probs);
}

Block preference_loss_block(const DecoderContext& context) {
  BlockBuilder block("loss", context.precision());
  const TensorId loss = PreferenceLoss(block, context).write();
  return std::move(block).take(loss);
}

}  // namespace memest
