#include <string_view>
#include <utility>

#include "graph/lower/adapters/prompt.hpp"
#include "graph/lower/attention/positions.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/ops/tensor_parallel.hpp"

namespace memest {
namespace {

/// As many indices as tokens, or as positions where all sequences share them.
TensorId looked_up(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                   LookUp part) {
  const Shape shape = block.tensor(part.indices).shape;
  const bool by_batch = shape.size() > 1 && shape.front() == context.dims.b;
  const LoweringPolicy& policy = context.policy;
  const bool by_prompt = by_batch && !(shape.back() == context.dims.s);
  const std::int64_t length = policy.seq_len - (by_prompt ? context.virtual_tokens() : 0);
  part.count = by_batch ? checked_multiply(policy.micro_batch, length) : length;
  return look_up(block, name, part);
}

/// The positions' rows of the learned table.
TensorId position_rows(BlockBuilder& block, const DecoderContext& context, TensorId ids) {
  const auto& learned = std::get<LearnedPosition>(context.decoder.position);
  const TensorId table =
      block.parameter({"position_embedding", "weight"}, {Symbol::max_positions, context.dims.h});
  const TensorId rows =
      looked_up(block, context, "position_embedding", {ids, table, 0, learned.rows});
  if (context.program.names_results) block.outlive(rows, "position rows");
  return rows;
}

/// Multiplies by √h as a tensor in the residual stream's type (Gemma), or by a number (Granite).
TensorId scale_embedding(BlockBuilder& block, const DecoderContext& context, TensorId x) {
  if (!context.habits.scale_is_tensor) {
    return scale(block, {"embedding_scale"}, x);
  }
  // GemmaTextScaledWordEmbedding.forward: times self.embed_scale.to(weight.dtype), a tensor that
  // the product keeps.
  const TensorId factor =
      block.make({"embedding_scale", "factor"}, {Expr(1)}, block.dtype_of(x), Role::buffer);
  return multiply(block, {"embedding_scale"}, x, factor);
}

/// torch.arange(s), where it is no library's habit to count otherwise.
TensorId counted_positions(BlockBuilder& block, const DecoderContext& context) {
  const TensorId ids = compute(block, OpKind::copy, {},
                               {{"position_ids", "arange"}, {context.dims.s}, DType::int64});
  if (context.program.position_ids == PositionIds::counted_first) {
    block.outlive(ids, "position ids");
  }
  return ids;
}

/// transformers' position ids, where layers are called with them.
TensorId ids_of_library(BlockBuilder& block, const DecoderContext& context) {
  if (!context.habits.passes_positions) return 0;
  return context.habits.positions_from_mask ? positions_of_mask(block, context)
                                            : position_ids(block, context);
}

/// The tables of cosines and sines that layers read, or are only called with.
void write_rotary_tables(BlockBuilder& block, const DecoderContext& context, TensorId ids) {
  if (context.program.rotations != Rotations::tables) return;
  const Position& position = context.decoder.position;
  // FalconModel.forward calls rotary_emb whether it has ALiBi or not.
  const bool unused =
      std::holds_alternative<AlibiPosition>(position) && context.habits.rotates_unused;
  if (context.habits.latents == LatentWriting::complex_pairs) {
    complex_rotary_table(block, context, ids, Symbol::rotary_dim);
  } else if (std::holds_alternative<RotaryPosition>(position)) {
    rotary_tables(block, context, ids, Symbol::rotary_dim);
  }
  if (unused) rotary_tables(block, context, ids, context.dims.d);
}

/// The rows of the table that `tokens` name; of a shard of the table, the rank's part of them.
TensorId token_rows(BlockBuilder& block, const DecoderContext& context, TensorId tokens) {
  const DecoderSpec& decoder = context.decoder;
  const Dimensions& dims = context.dims;
  const TensorId table = block.parameter({"embedding", "weight"}, {dims.v, dims.embedding});
  if (!context.shards_tensors()) {
    return looked_up(block, context, "embedding", {tokens, table, 0, decoder.vocab_size});
  }
  const std::int64_t count = checked_multiply(context.policy.micro_batch, context.policy.seq_len);
  const TensorId rows =
      look_up_in_shard(block, context, {tokens, table, count, decoder.vocab_size});
  return scattered(block, context, "embedding_shard", rows);
}

/// Shape of the sequences' own tokens, without a prompt's.
Shape own_rows(const DecoderContext& context) {
  const Expr n(context.virtual_tokens());
  return context.virtual_tokens() > 0 ? Shape{context.dims.b, context.dims.s - n}
                                      : context.dims.rows();
}

/// The rows of `tokens`, behind a prompt's where there is one.
TensorId embedded(BlockBuilder& block, const DecoderContext& context, TensorId tokens) {
  const auto rows = context.program.token_rows;
  TensorId x = (rows != nullptr ? rows : token_rows)(block, context, tokens);
  const bool scaled = context.decoder.scaled_embedding;
  // The hook that wants gradients is the embedding's module's, which Gemma's multiplies in.
  const bool scales_within = scaled && context.habits.scale_is_tensor;
  if (scales_within) x = scale_embedding(block, context, x);
  if (context.embeddings_want_gradient()) block.set_needs_gradient(x, true);
  if (scaled && !scales_within) x = scale_embedding(block, context, x);
  return context.virtual_tokens() > 0 ? prompted(block, context, tokens, x) : x;
}

}  // namespace

void write_positions(BlockBuilder& block, const DecoderContext& context) {
  const TensorId ids = ids_of_library(block, context);
  if (!context.sees_images_whole()) attention_masks(block, context, ids);
  write_rotary_tables(block, context, ids);
}

Block embedding_block(const DecoderContext& context) {
  const DecoderSpec& decoder = context.decoder;
  const Dimensions& dims = context.dims;
  BlockBuilder block("embedding", context.precision());
  const TensorId tokens = block.shared("token ids", own_rows(context), DType::int64);
  const bool learned = std::holds_alternative<LearnedPosition>(decoder.position);
  const PositionIds counts = context.program.position_ids;
  const bool counts_first = learned && counts == PositionIds::counted_first;
  TensorId ids = counts_first ? counted_positions(block, context) : 0;
  TensorId x = embedded(block, context, tokens);
  if (context.vision != nullptr) {
    block.outlive(x, kTextEmbeddings);
    return std::move(block).take(x);
  }
  const bool projects = decoder.embedding_size != decoder.hidden_size;
  const bool renames = context.habits.renames_embedding;
  const bool names = context.program.names_results && context.virtual_tokens() == 0;
  if (names && !projects && !renames) block.outlive(x, "input embeddings");
  const bool of_mask = context.habits.positions_from_mask;
  const bool alibi =
      context.program.passes_masks && std::holds_alternative<AlibiPosition>(decoder.position);
  const auto normalize = [&] {
    if (!decoder.embedding_norm) return;
    x = norm(block, context, {"embedding_norm", decoder.norm, {dims.h}}, x);
  };
  if (alibi) {
    normalize();
    alibi_table(block, context);
  }
  if (counts == PositionIds::of_family) {
    ids = ids_of_library(block, context);
  } else if (learned && counts == PositionIds::counted) {
    ids = counted_positions(block, context);
  }
  const bool masks_first = context.habits.masks_before_positions;
  if (masks_first) attention_masks(block, context, ids);
  if (of_mask) {
    ids = compute(block, OpKind::add, {ids},
                  {{"position_embedding", "shifted ids"}, dims.rows(), DType::int64});
  }
  TensorId positions = 0;
  if (learned) positions = position_rows(block, context, ids);
  if (projects) {
    x = linear(block, {"project_in", dims.embedding, dims.h}, {dims.rows(), x});
    if (context.program.names_results) block.outlive(x, "input embeddings");
  }
  if (learned) x = add(block, {"add_positions"}, x, positions);
  if (!alibi) normalize();
  if (context.program.passes_masks && !masks_first) attention_masks(block, context, ids);
  if (context.habits.drops_embedding) {
    x = dropout(block, "embedding_dropout", context.dropout(decoder.dropout.embedding), x);
  }
  if (renames) block.outlive(x, "input embeddings");
  write_rotary_tables(block, context, ids);
  return std::move(block).take(x);
}

}  // namespace memest
