// torchtune: TransformerDecoder.unembed with CrossEntropyLoss, or with CEWithChunkedOutputLoss.
// Then the output head multiplies one part of the sequences after another, and the losses of the
// parts are taken when all logits are there: in fp32 are those of one part at a time,
// log-probabilities of all.
#include <ranges>
#include <utility>

#include "graph/lower/chunked/chunks.hpp"
#include "graph/lower/torchtune/torchtune.hpp"
#include "graph/lower/trl/trl.hpp"

namespace memest {
namespace {

class HeadAndLoss {
 public:
  HeadAndLoss(BlockBuilder& block, const DecoderContext& context)
      : block_(block),
        context_(context),
        dims_(context.dims),
        lengths_(chunk_lengths(context)),
        copies_(context.policy.micro_batch > 1) {}

  TensorId write(TensorId x) {
    const bool whole = context_.policy.implementation.loss != LossKernel::chunked;
    const std::vector<TensorId> logits = outputs(x, whole);
    const TensorId labels = shifted_labels();
    Frame list(block_);
    for (const TensorId one : logits | std::views::reverse) list.local(one);
    if (keeps_labels()) {
      block_.answer(labels);
    } else {
      list.local(labels);
    }
    return whole ? likelihood(logits.front(), labels) : loss_of(logits, labels);
  }

 private:
  /// recipes/full_finetune_distributed.py has the labels among train()'s own names, where the other
  /// recipes' _loss_step lets them go.
  [[nodiscard]] bool keeps_labels() const {
    return context_.adapter == nullptr && context_.policy.reporting > 1;
  }

  /// unembed(h); the model's forward names the last layer's output until it returns.
  std::vector<TensorId> outputs(TensorId x, bool whole) {
    Frame model(block_);
    block_.let_input_go();
    model.local(x);
    Frame unembed(block_);
    const TensorId hidden =
        unembed.local(norm(block_, context_, {"final_norm", context_.decoder.norm, {dims_.h}}, x));
    std::vector<TensorId> logits = whole ? std::vector{wide_product(hidden)} : products(hidden);
    block_.ops().back().ends_autocast = true;  // the model answers
    return logits;
  }

  /// self.output(h).float()
  TensorId wide_product(TensorId hidden) {
    const TensorId logits = product_with(block_, head(), {head_weight()}, {dims_.rows(), hidden});
    return cast(block_, {"logits_in_fp32"}, logits, DType::fp32);
  }

  [[nodiscard]] Projection2d head() const {
    return {"lm_head", dims_.embedding, dims_.v, false, context_.decoder.tied_embeddings};
  }

  TensorId head_weight() {
    const Place place{"lm_head", "weight"};
    const Shape shape = {dims_.v, dims_.embedding};
    return context_.decoder.tied_embeddings ? block_.tied_parameter(place, shape)
                                            : block_.parameter(place, shape);
  }

  std::vector<TensorId> products(TensorId hidden) {
    std::vector<SplitPart> parts;
    for (const Expr& length : lengths_) {
      parts.push_back({{"final_norm", "chunk"}, {dims_.b, length, dims_.embedding}});
    }
    const std::vector<TensorId> chunks = split(block_, "final_norm", hidden, parts);
    const TensorId weight = head_weight();
    std::vector<TensorId> logits;
    for (const TensorId chunk : chunks) {
      // at::linear flattens rows that do not follow one another by reshape, where the matrix wants
      // a gradient; else it multiplies them in batches (should_fold of LinearAlgebra.cpp).
      const bool copies = copies_ && block_.needs_gradient(weight);
      const TensorId flat = flattened(block_, "final_norm", chunk, copies);
      const Shape rows = {block_.tensor(flat).shape.front()};
      logits.push_back(product_with(block_, head(), {weight}, {rows, flat}));
    }
    return logits;
  }

  /// torch.hstack((labels[..., 1:], ignore_labels_cache)), which takes the labels' name.
  TensorId shifted_labels() {
    const TensorId labels = block_.shared("labels", dims_.rows(), DType::int64);
    const TensorId shifted = compute(block_, OpKind::copy, {labels},
                                     {{"labels", "shifted"}, dims_.rows(), DType::int64});
    block_.let_go("labels");
    return shifted;
  }

  /// (labels != ignore_index).sum().
  TensorId counted(TensorId labels) {
    Frame flags(block_);
    const TensorId wanted = flags.local(compute(
        block_, OpKind::mask, {labels}, {{"labels", "targets"}, dims_.rows(), DType::boolean}));
    return counted_flags(block_, {"labels", "count"}, wanted);
  }

  TensorId loss_of(const std::vector<TensorId>& logits, TensorId labels) {
    Frame call(block_);
    const TensorId count = call.local(counted(labels));
    const std::vector<TensorId> targets = chunks_of_labels(call, labels);
    std::vector<TensorId> totals;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      totals.push_back(add_to_total(block_, totals, loss_of_chunk(logits[i], targets[i])));
    }
    call.local(totals.front());
    return over_count(block_, "loss_over_targets", totals.back(), count);
  }

  /// labels.chunk(8, dim=1), each seen as rows or, of several sequences, copied.
  std::vector<TensorId> chunks_of_labels(Frame& call, TensorId labels) {
    std::vector<TensorId> targets;
    for (const Expr& length : lengths_) {
      const Place place{"labels", "chunk"};
      const Shape rows = {dims_.b, length};
      targets.push_back(
          call.local(copies_ ? compute(block_, OpKind::copy, {labels}, {place, rows, DType::int64})
                             : block_.alias(place, labels, rows)));
    }
    return targets;
  }

  /// F.cross_entropy(logits.float(), labels, reduction="sum").
  TensorId loss_of_chunk(TensorId logits, TensorId targets) {
    const TensorId scores = cast(block_, {"logits_in_fp32"}, logits, DType::fp32);
    Frame call(block_);
    if (scores != logits) call.local(scores);
    return likelihood(scores, targets);
  }

  TensorId likelihood(TensorId scores, TensorId targets) {
    return negative_likelihood(block_, log_softmax(block_, "log_softmax", scores), targets);
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
  std::vector<Expr> lengths_;
  bool copies_;
};

}  // namespace

TensorId torchtune_head_and_loss(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  return HeadAndLoss(block, context).write(x);
}

}  // namespace memest
