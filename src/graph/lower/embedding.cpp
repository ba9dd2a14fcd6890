#include <algorithm>
#include <utility>

#include "decoder_context.hpp"
#include "memest/graph/kernel_scratch.hpp"
#include "operations.hpp"
#include "positions.hpp"

namespace memest {
namespace {

/// Indices into a table of `table_rows`.
struct LookUp {
  TensorId indices = 0;
  TensorId table = 0;
  std::int64_t table_rows = 0;
};

/// The whole gradient of the table and, for more than 3072 indices, sums of partial rows (PyTorch,
/// EmbeddingBackwardKernel.cu).
void write_backward(BlockBuilder& block, const DecoderContext& context, const LookUp& part,
                    Op& op) {
  const Shape shape = block.tensor(part.indices).shape;
  const bool by_batch = shape.size() > 1 && shape.front() == context.dims.b;
  const LoweringPolicy& policy = context.policy;
  const std::int64_t count =
      by_batch ? checked_multiply(policy.micro_batch, policy.seq_len) : policy.seq_len;
  BackwardWriter backward(op);
  const DType dtype = block.dtype_of(part.table);
  if (count <= kUnsortedTokens) {
    backward.give(part.table, backward.make(part.table, dtype));
    return;
  }
  const Shape& table = block.tensor(part.table).shape;
  KernelLaunch sort;
  sort.kind = KernelLaunch::Kind::embedding_backward;
  sort.outer = block.tensor(part.indices).elements();
  sort.reduced = table.front();
  sort.inner = table.back();
  sort.dtype = dtype;
  // Indices four times, and partial rows of ten indices and of every distinct one in fp32.
  const Expr distinct = count < part.table_rows ? sort.outer : sort.reduced;
  sort.scratch_bytes = Expr(4 * size_of(DType::int64)) * sort.outer +
                       Expr(size_of(DType::fp32)) * (sort.outer / Expr(10) + distinct) * sort.inner;
  backward.give(part.table, backward.launch_making(part.table, std::move(sort)));
}

/// A table look-up: keeps the indices.
TensorId look_up(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                 const LookUp& part) {
  const auto [indices, table, table_rows] = part;
  const Expr width = block.tensor(table).shape.back();
  Shape shape = block.tensor(indices).shape;
  shape.push_back(width);
  const TensorId out = block.make({name}, std::move(shape), block.dtype_of(table));
  Op op;
  op.kind = OpKind::embedding;
  op.name = name;
  op.inputs = {indices, table};
  op.outputs = {out};
  op.saved = {indices};
  write_backward(block, context, part, op);
  block.emit(std::move(op));
  return out;
}

/// The positions' rows of the learned table, added to the tokens'.
TensorId add_positions(BlockBuilder& block, const DecoderContext& context, TensorId ids,
                       TensorId x) {
  const auto& learned = std::get<LearnedPosition>(context.decoder.position);
  const TensorId table =
      block.parameter({"position_embedding", "weight"}, {Symbol::max_positions, context.dims.h});
  const TensorId rows = look_up(block, context, "position_embedding", {ids, table, learned.rows});
  if (context.names_results()) block.outlive(rows, "position rows");
  return add(block, {"add_positions"}, x, rows);
}

/// Multiplies by √h as a tensor in the residual stream's type (Gemma), or by a number (Granite).
TensorId scale_embedding(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  if (!context.transformers() || !context.habits.scale_is_tensor) {
    return scale(block, {"embedding_scale"}, x);
  }
  const TensorId factor =
      block.make({"embedding_scale", "factor"}, {Expr(1)}, block.dtype_of(x), Role::buffer);
  return multiply(block, {"embedding_scale"}, x, factor);
}

}  // namespace

/// torch.arange(s), where it is no library's habit to count otherwise.
TensorId counted_positions(BlockBuilder& block, const DecoderContext& context) {
  const TensorId ids = compute(block, OpKind::copy, {},
                               {{"position_ids", "arange"}, {context.dims.s}, DType::int64});
  if (context.model_py()) block.outlive(ids, "position ids");
  return ids;
}

Block embedding_block(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const Dimensions& dims = context.dims;
  BlockBuilder block("embedding", context.precision());
  const TensorId tokens = block.shared("token ids", dims.rows(), DType::int64);
  const TensorId table = block.parameter({"embedding", "weight"}, {dims.v, dims.embedding});
  const bool learned = std::holds_alternative<LearnedPosition>(decoder.position);
  TensorId ids = 0;
  if (learned && context.model_py()) ids = counted_positions(block, context);
  TensorId x = look_up(block, context, "embedding", {tokens, table, decoder.vocab_size});
  if (context.embeddings_want_gradient()) block.set_needs_gradient(x, true);
  if (decoder.embedding_size != decoder.hidden_size) {
    x = linear(block, {"project_in", dims.embedding, dims.h}, dims.rows(), x);
  }
  if (decoder.scaled_embedding) x = scale_embedding(block, context, x);
  if (context.names_results()) block.outlive(x, "input embeddings");
  const bool of_mask = context.transformers() && context.habits.positions_from_mask;
  if (context.transformers()) {
    ids = of_mask ? positions_of_mask(block, context) : position_ids(block, context);
  } else if (learned && !context.model_py()) {
    ids = counted_positions(block, context);
  }
  const bool masks_first = context.transformers() && context.habits.masks_before_positions;
  if (masks_first) attention_masks(block, context, ids);
  if (of_mask) {
    ids = compute(block, OpKind::add, {ids},
                  {{"position_embedding", "shifted ids"}, dims.rows(), DType::int64});
  }
  if (learned) x = add_positions(block, context, ids, x);
  if (decoder.embedding_norm) {
    x = norm(block, context, {"embedding_norm", decoder.norm, {dims.h}}, x);
  }
  if (context.transformers() && !masks_first) attention_masks(block, context, ids);
  if (!context.transformers() || context.habits.drops_embedding) {
    x = dropout(block, "embedding_dropout", context.dropout(decoder.dropout.embedding), x);
  }
  if (!context.textbook()) {
    const auto* rotary = std::get_if<RotaryPosition>(&decoder.position);
    const bool unused = std::holds_alternative<AlibiPosition>(decoder.position) &&
                        context.transformers() && context.habits.rotates_unused;
    if (rotary != nullptr) rotary_tables(block, context, ids, Symbol::rotary_dim);
    if (unused) rotary_tables(block, context, ids, dims.d);
  }
  return std::move(block).take(x);
}

}  // namespace memest
