// litgpt/model.py, GPT.forward from the final norm on; lightning's _FabricModule, whose answer is
// fp32; litgpt/utils.py, chunked_cross_entropy: of the logits as LoRA's program has them, a list of
// 128 tokens each, or of whole ones in rows of 128.
#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "graph/lower/chunked/chunks.hpp"
#include "graph/lower/litgpt/litgpt.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/trl/trl.hpp"

namespace memest {
namespace {

/// lm_head_chunk_size of finetune/lora.py, and the default chunk_size of chunked_cross_entropy.
constexpr std::int64_t kChunk = 128;

/// Lengths of the parts of `whole`, which is `count` long.
std::vector<Expr> lengths_of_chunks(const Expr& whole, std::int64_t count) {
  std::vector<Expr> lengths(static_cast<std::size_t>((count + kChunk - 1) / kChunk), Expr(kChunk));
  const auto before = static_cast<std::int64_t>(lengths.size()) - 1;
  lengths.back() = whole - Expr(before * kChunk);
  return lengths;
}

class ChunkedHead {
 public:
  ChunkedHead(BlockBuilder& block, const DecoderContext& context)
      : block_(block),
        context_(context),
        dims_(context.dims),
        copies_(context.policy.micro_batch > 1) {}

  TensorId write(TensorId x) {
    std::vector<TensorId> logits = widened(outputs(x));
    for (const TensorId one : logits) block_.answer(one);
    block_.ops().back().ends_model = true;
    const TensorId labels = block_.shared("labels", dims_.rows(), DType::int64);
    return context_.adapter != nullptr ? loss_of_list(std::move(logits), labels)
                                       : loss_of_whole(logits.front(), labels);
  }

 private:
  std::vector<TensorId> outputs(TensorId x) {
    Frame model(block_);
    block_.let_input_go();
    const TensorId hidden = [&] {
      Frame renaming(block_);
      renaming.local(x);
      return norm(block_, context_, {"final_norm", context_.decoder.norm, {dims_.h}}, x);
    }();
    model.local(hidden);
    std::vector<TensorId> logits = context_.adapter != nullptr
                                       ? products_of_chunks(hidden)
                                       : std::vector{product({dims_.rows(), hidden})};
    block_.ops().back().ends_autocast = true;
    return logits;
  }

  TensorId product(const Rows& rows) {
    return projection(block_, context_, {"lm_head", dims_.h, dims_.v, context_.decoder.head_bias},
                      rows);
  }

  std::vector<TensorId> products_of_chunks(TensorId hidden) {
    std::vector<SplitPart> parts;
    for (const Expr& length : lengths_of_chunks(dims_.s, context_.policy.seq_len)) {
      parts.push_back({{"final_norm", "chunk"}, {dims_.b, length, dims_.h}});
    }
    std::vector<TensorId> logits;
    for (const TensorId chunk : split(block_, "final_norm", hidden, parts)) {
      const Shape& shape = block_.tensor(chunk).shape;
      logits.push_back(product({{shape[0], shape[1]}, chunk}));
    }
    return logits;
  }

  /// HalfPrecision.convert_output, MixedPrecision's too: the list goes when all are there.
  std::vector<TensorId> widened(const std::vector<TensorId>& logits) {
    std::vector<TensorId> wide;
    {
      Frame list(block_);
      for (const TensorId one : logits) {
        wide.push_back(cast(block_, {"logits_in_fp32"}, one, DType::fp32));
      }
      if (wide == logits) return wide;
      for (const TensorId one : logits | std::views::reverse) list.local(one);
    }
    return wide;
  }

  /// logits[-1][..., :-1, :]: the last token has no target.
  TensorId without_last(TensorId logits, const Expr& tokens) {
    return slice(block_, {"logits", "with targets"}, logits, {dims_.b, tokens, dims_.v});
  }

  TensorId loss_of_list(std::vector<TensorId> logits, TensorId labels) {
    const Shape& last = block_.tensor(logits.back()).shape;
    logits.back() = without_last(logits.back(), last[1] - Expr(1));
    Frame function(block_);
    std::vector<TensorId> rows;
    for (const TensorId one : logits) {
      rows.push_back(flattened(block_, "logits", one, copies_ && one == logits.back()));
    }
    if (copies_) function.local(rows.back());
    std::vector<TensorId> targets;
    for (const TensorId one : logits) {
      const Expr tokens = block_.tensor(one).shape[1];
      const TensorId part = block_.alias({"labels", "chunk"}, labels, {dims_.b, tokens});
      targets.push_back(labels_of(part, dims_.b * tokens));
    }
    return mean_of(function, rows, targets, labels);
  }

  TensorId loss_of_whole(TensorId logits, TensorId labels) {
    Frame function(block_);
    const Expr tokens = dims_.s - Expr(1);
    const TensorId flat = flattened(block_, "logits", without_last(logits, tokens), copies_);
    if (copies_) function.local(flat);
    const TensorId later = block_.alias({"labels", "later"}, labels, {dims_.b, tokens});
    const TensorId flat_labels = labels_of(later, dims_.b * tokens);
    const std::int64_t count = context_.policy.micro_batch * (context_.policy.seq_len - 1);
    std::vector<SplitPart> parts;
    std::vector<TensorId> targets;
    for (const Expr& length : lengths_of_chunks(dims_.b * tokens, count)) {
      parts.push_back({{"logits", "chunk"}, {length, dims_.v}});
      targets.push_back(block_.alias({"labels", "chunk"}, flat_labels, {length}));
    }
    return mean_of(function, split(block_, "logits", flat, parts), targets, flat_labels);
  }

  TensorId labels_of(TensorId labels, const Expr& rows) {
    if (!copies_) return block_.alias({"labels", "rows"}, labels, {rows});
    return compute(block_, OpKind::copy, {labels}, {{"labels", "rows"}, {rows}, DType::int64});
  }

  /// cat(losses).sum() / non_masked_elems.maximum(ones_like(non_masked_elems)).
  TensorId mean_of(Frame& function, const std::vector<TensorId>& rows,
                   const std::vector<TensorId>& targets, TensorId labels) {
    std::vector<TensorId> losses;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TensorId scores = log_softmax(block_, "log_softmax", rows[i]);
      losses.push_back(negative_likelihoods(block_, scores, targets[i]));
    }
    const TensorId count = counted(labels);
    const TensorId sum = [&] {
      const Frame expression(block_);
      const Expr tokens = dims_.b * (dims_.s - Expr(1));
      return sum_of_all(block_, {"loss", "sum"},
                        concatenate(block_, {"loss", "by tokens"}, {losses}, {tokens}));
    }();
    const TensorId one = reduced_to_number(block_, {"labels", "one"}, count, DType::int64);
    const TensorId most = compute(block_, OpKind::reduce, {count, one},
                                  {{"labels", "one at least"}, {Expr(1)}, DType::int64});
    for (const TensorId loss : losses | std::views::reverse) function.local(loss);
    function.local(count);
    return over_count(block_, "loss_over_targets", sum, most);
  }

  /// (targets != ignore_index).sum().
  TensorId counted(TensorId labels) {
    const Shape shape = {dims_.b * (dims_.s - Expr(1))};
    return counted_flags(
        block_, {"labels", "count"},
        compute(block_, OpKind::mask, {labels}, {{"labels", "targets"}, shape, DType::boolean}));
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
  bool copies_;  // rows of several sequences do not follow one another
};

}  // namespace

TensorId litgpt_head_and_loss(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  return ChunkedHead(block, context).write(x);
}

}  // namespace memest
