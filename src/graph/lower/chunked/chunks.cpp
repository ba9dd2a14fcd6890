#include "graph/lower/chunked/chunks.hpp"

#include <utility>

namespace memest {
namespace {

/// num_output_chunks of torchtitan's chunked_cross_entropy_loss and of torchtune's
/// CEWithChunkedOutputLoss.
constexpr std::int64_t kChunks = 8;

}  // namespace

// torch.chunk's parts are as long as s / 8 rounded up, the last one what is left.
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

TensorId flattened(BlockBuilder& block, std::string_view name, TensorId chunk, bool copies) {
  const Shape& shape = block.tensor(chunk).shape;
  Shape flat = {shape[0] * shape[1]};
  flat.insert(flat.end(), shape.begin() + 2, shape.end());
  return copies ? copy(block, {name, "flat"}, chunk, std::move(flat))
                : view(block, {name, "flat"}, chunk, std::move(flat));
}

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

TensorId over_count(BlockBuilder& block, std::string_view name, TensorId total, TensorId count) {
  const TensorId loss = block.make({name}, {Expr(1)}, DType::fp32);
  Op op;
  op.kind = OpKind::scale;
  op.name = name;
  op.inputs = {total, count};
  op.outputs = {loss};
  op.saved = {count};
  BackwardWriter backward(op);
  backward.give(total, backward.make(total, DType::fp32));
  block.emit(std::move(op));
  return loss;
}

}  // namespace memest
