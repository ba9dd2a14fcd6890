// torchtitan of March 2025, components/loss.py: chunked_cross_entropy_loss. Logits and labels are
// cut along the sequence into views, whose losses are taken one after another: fp32 logits are
// there of one chunk at a time, log-probabilities of all.
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/programs/decoder.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

/// num_output_chunks
constexpr std::int64_t kChunks = 8;

/// Tokens of each chunk's sequences: torch.chunk's are as long as s / 8 rounded up, the last one
/// what is left, and there may be fewer.
std::vector<Expr> chunk_lengths(const DecoderContext& context) {
  const std::int64_t tokens = context.policy.seq_len;
  if (tokens % kChunks == 0) {
    return std::vector<Expr>(static_cast<std::size_t>(kChunks), context.dims.s / Expr(kChunks));
  }
  const std::int64_t most = (tokens + kChunks - 1) / kChunks;
  std::vector<Expr> lengths;
  for (std::int64_t left = tokens; left > 0; left -= most) {
    lengths.emplace_back(left < most ? left : most);
  }
  return lengths;
}

/// x.flatten(0, 1) of rows of each sequence: a copy where there are several.
TensorId flattened(BlockBuilder& block, std::string_view name, TensorId chunk, bool copies) {
  const Shape& shape = block.tensor(chunk).shape;
  Shape flat = {shape[0] * shape[1]};
  flat.insert(flat.end(), shape.begin() + 2, shape.end());
  return copies ? copy(block, {name, "flat"}, chunk, std::move(flat))
                : view(block, {name, "flat"}, chunk, std::move(flat));
}

/// cross_entropy_loss, whose arguments are there until it returns.
TensorId loss_of_chunk(BlockBuilder& block, TensorId chunk, TensorId labels, bool copies) {
  Frame call(block);
  const TensorId rows = flattened(block, "logits", chunk, copies);
  const TensorId scores = call.local(cast(block, {"logits_in_fp32"}, rows, DType::fp32));
  const TensorId targets = call.local(flattened(block, "labels", labels, copies));
  return negative_likelihood(block, log_softmax(block, "log_softmax", scores), targets);
}

/// total += loss: in place, but for the first one, which is added to a number.
TensorId add_to_total(BlockBuilder& block, const std::vector<TensorId>& total, TensorId loss) {
  constexpr Place kPlace{"total_loss"};
  if (total.empty()) return add_number(block, kPlace, loss);
  Op op;
  op.kind = OpKind::add;
  op.name = kPlace.op;
  op.inputs = {total.back(), loss};
  const TensorId out = block.alias(kPlace, total.back(), block.tensor(loss).shape);
  op.outputs = {out};
  BackwardWriter backward(op);
  backward.hand_on(total.back());
  backward.hand_on(loss);
  block.emit(std::move(op));
  return out;
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
