// torchtitan of March 2025, components/loss.py: chunked_cross_entropy_loss. Logits and labels are
// cut along the sequence into views, whose losses are taken one after another: fp32 logits are
// there of one chunk at a time, log-probabilities of all.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/chunked/chunks.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

/// cross_entropy_loss, whose arguments are there until it returns.
TensorId loss_of_chunk(BlockBuilder& block, TensorId chunk, TensorId labels, bool copies) {
  Frame call(block);
  const TensorId rows = flattened(block, "logits", chunk, copies);
  const TensorId scores = call.local(cast(block, {"logits_in_fp32"}, rows, DType::fp32));
  const TensorId targets = call.local(flattened(block, "labels", labels, copies));
  return negative_likelihood(block, log_softmax(block, "log_softmax", scores), targets);
}

}  // namespace

Block chunked_loss_block(const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  BlockBuilder block("loss", context.precision());
  const Expr vocabulary(Symbol::vocab_size);
  const TensorId logits =
      block.block_input({dims.b, dims.s, vocabulary},
                        context.policy.autocast ? context.policy.compute : context.policy.weights);
  const TensorId labels = block.shared("labels", dims.rows(), DType::int64);
  std::vector<SplitPart> of_logits;
  for (const Expr& length : chunk_lengths(context)) {
    of_logits.push_back({{"logits", "chunk"}, {dims.b, length, vocabulary}});
  }
  const std::vector<TensorId> chunks = split(block, "logits", logits, of_logits);
  const bool copies = context.policy.micro_batch > 1;
  std::vector<TensorId> totals;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Shape rows = {dims.b, of_logits[i].shape[1]};
    const TensorId part = block.alias({"labels", "chunk"}, labels, rows);
    totals.push_back(add_to_total(block, totals, loss_of_chunk(block, chunks[i], part, copies)));
  }
  TensorId loss = scale(block, {"total_loss", "over chunks"}, totals.back());
  if (row_of(context.policy.implementation.loop).divides_by_targets) {
    loss = scale(block, {"loss_over_targets"}, loss);
  }
  return std::move(block).take(loss);
}

}  // namespace memest
