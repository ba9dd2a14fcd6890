#include <algorithm>
#include <utility>

#include "decoder_context.hpp"
#include "operations.hpp"

namespace memest {
namespace {

/// Indices into a table of `table_rows`.
struct LookUp {
  TensorId indices = 0;
  TensorId table = 0;
  std::int64_t table_rows = 0;
};

/// A table look-up: keeps the indices. Its backward writes the whole gradient of the table and, for
/// more than 3072 indices, sums partial rows in fp32 (PyTorch, EmbeddingBackwardKernel.cu).
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
  constexpr std::int64_t kSortedFrom = 3072;
  constexpr std::int64_t kRowsAPartial = 10;
  const LoweringPolicy& policy = context.policy;
  const std::int64_t count = checked_multiply(policy.micro_batch, policy.seq_len);
  if (name == "embedding" && count > kSortedFrom) {
    const Expr tokens = block.tensor(indices).elements();
    const Expr distinct = count < table_rows ? tokens : block.tensor(table).shape.front();
    op.backward_scratch = {
        scratch(block, {name, "sorted indices"}, {Expr(4) * tokens}, DType::int64),
        scratch(block, {name, "partial rows in fp32"},
                {tokens / Expr(kRowsAPartial) + distinct, width}, DType::fp32)};
  }
  block.emit(std::move(op));
  return out;
}

/// The positions' rows of the learned table, added to the tokens'.
TensorId add_positions(BlockBuilder& block, const DecoderContext& context,
                       const LearnedPosition& learned, TensorId x) {
  const Dimensions& dims = context.dims;
  const bool by_batch = context.transformers() && context.habits.positions_by_batch;
  const TensorId ids =
      context.textbook()
          ? block.make({"position_embedding", "ids"}, {dims.s}, DType::int64, Role::input)
          : block.make({"position_embedding", "ids"}, {by_batch ? dims.b : Expr(1), dims.s},
                       DType::int64, Role::input);
  const TensorId table =
      block.parameter({"position_embedding", "weight"}, {Symbol::max_positions, dims.h});
  const TensorId rows = look_up(block, context, "position_embedding", {ids, table, learned.rows});
  return add(block, "add_positions", x, rows);
}

/// Multiplies by √h as a tensor in the residual stream's type (Gemma), or by a number (Granite).
TensorId scale_embedding(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  if (!context.transformers() || !context.habits.scale_is_tensor) {
    return scale(block, "embedding_scale", x);
  }
  const TensorId factor =
      block.make({"embedding_scale", "factor"}, {Expr(1)}, block.dtype_of(x), Role::buffer);
  return multiply(block, "embedding_scale", x, factor);
}

/// The tables of cosines and sines of the batch's positions: a product of frequencies and
/// positions, [r/2, 1] by [1, s], without gradient.
void rotary_tables(BlockBuilder& block, const DecoderContext& context, const Expr& channels,
                   std::int64_t tables) {
  const Shape shape = {Expr(1), context.dims.s, channels};
  const auto table = [&](std::string_view name, std::string_view cos, std::string_view sin) {
    Op op;
    op.kind = OpKind::rotary;
    op.name = name;
    const bool in_fp32 = context.transformers() && context.habits.tables_in_fp32;
    const DType dtype = in_fp32 ? DType::fp32 : block.precision().weights;
    op.outputs = {block.make({name, cos}, shape, dtype, Role::buffer),
                  block.make({name, sin}, shape, dtype, Role::buffer)};
    block.emit(std::move(op), {channels * context.dims.s, Expr()});
  };
  table("rotary_table", "cos", "sin");
  if (tables > 1) table("local_rotary_table", "local cos", "local sin");
}

}  // namespace

Block embedding_block(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const Dimensions& dims = context.dims;
  BlockBuilder block("embedding",
                     {context.policy.weights, context.policy.compute, context.policy.autocast});
  const TensorId ids = block.shared("token ids", dims.rows(), DType::int64);
  const TensorId table = block.parameter({"embedding", "weight"}, {dims.v, dims.embedding});
  TensorId x = look_up(block, context, "embedding", {ids, table, decoder.vocab_size});
  if (decoder.embedding_size != decoder.hidden_size) {
    x = linear(block, {"project_in", dims.embedding, dims.h}, dims.rows(), x);
  }
  if (decoder.scaled_embedding) x = scale_embedding(block, context, x);
  if (const auto* learned = std::get_if<LearnedPosition>(&decoder.position)) {
    x = add_positions(block, context, *learned, x);
  }
  if (decoder.embedding_norm) {
    x = norm(block, context, {"embedding_norm", decoder.norm, {dims.h}}, x);
  }
  if (!context.transformers() || context.habits.drops_embedding) {
    dropout(block, "embedding_dropout", context.dropout(decoder.dropout.embedding), x);
  }
  if (context.textbook()) return std::move(block).take();
  if (const auto* rotary = std::get_if<RotaryPosition>(&decoder.position)) {
    rotary_tables(block, context, Symbol::rotary_dim, rotary->tables);
  } else if (std::holds_alternative<AlibiPosition>(decoder.position) && context.transformers() &&
             context.habits.rotates_unused) {
    rotary_tables(block, context, dims.d, 1);
  }
  return std::move(block).take();
}

}  // namespace memest
