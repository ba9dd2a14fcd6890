#include "graph/lower/litgpt/litgpt.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

struct Tables {
  TensorId cosines = 0;
  TensorId sines = 0;
};

/// Rows of the model's buffers, which all layers share.
Tables tables_of(BlockBuilder& block, const DecoderContext& context) {
  const Shape shape = {Expr(1), context.dims.s, Symbol::rotary_dim};
  const DType type = rotary_type(context.decoder, context.policy);
  const auto buffer = [&](std::string_view name) {
    const TensorId table = block.shared(name, shape, type);
    block.tensor(table).role = Role::buffer;
    return table;
  };
  return {buffer("cos"), buffer("sin")};
}

/// (x * cos) + (rotated * sin), in the wider type, as x's: keeps the tables.
TensorId turned(BlockBuilder& block, std::string_view name, TensorId x, const Tables& tables) {
  Frame function(block);
  Shape half = block.tensor(x).shape;
  half.back() = half.back() / Expr(2);
  const TensorId low = slice(block, {name, "low half"}, x, half);
  const TensorId high = slice(block, {name, "high half"}, x, half);
  const TensorId rotated = function.local(
      concatenate(block, {name, "half turned"}, {{scale(block, {name, "negated half"}, high), low}},
                  block.tensor(x).shape));
  const TensorId cosine = multiply(block, {name, "cosine product"}, x, tables.cosines);
  const TensorId sine = multiply(block, {name, "sine product"}, rotated, tables.sines);
  const TensorId sum = function.local(add(block, {name, "turned"}, cosine, sine));
  return cast(block, {name, "in type"}, sum, block.dtype_of(x));
}

}  // namespace

DType rotary_type(const DecoderSpec& decoder, const LoweringPolicy& policy) {
  const DType made = policy.seq_len == decoder.max_positions ? policy.weights : DType::fp32;
  return policy.sharded_buffers.value_or(made);
}

AttentionInputs rotated_joined(BlockBuilder& block, const RotaryCall& call,
                               AttentionInputs inputs) {
  const DecoderContext& context = call.context;
  const Tables tables = tables_of(block, context);
  const bool all =
      std::get<RotaryPosition>(context.decoder.position).rotary_dim == context.attention.head_dim;
  const auto turning = [&](std::string_view name, TensorId x) {
    Shape part = block.tensor(x).shape;
    part.back() = all ? context.dims.d : Expr(Symbol::rotary_dim);
    const Place place{name, "turning channels"};
    // x[..., :d] of d channels is x itself (ATen/TensorIndexing.h, applySlice).
    const TensorId channels = all ? view(block, place, x, part) : slice(block, place, x, part);
    return call.attention.local(turned(block, name, channels, tables));
  };
  // torch.cat((q_roped, q[..., rope_n_elem:]), dim=-1), also of no channels.
  const auto joined = [&](std::string_view name, TensorId roped, TensorId x) {
    const Shape whole = block.tensor(x).shape;
    Shape part = whole;
    part.back() = whole.back() - block.tensor(roped).shape.back();
    const TensorId still = slice(block, {name, "still channels"}, x, part);
    return Heads{concatenate(block, {name}, {{roped, still}}, whole), true};
  };
  const TensorId of_q = turning("q_rotary", inputs.q.id);
  const TensorId of_k = turning("k_rotary", inputs.k.id);
  inputs.q = joined("q_rotary", of_q, inputs.q.id);
  inputs.k = joined("k_rotary", of_k, inputs.k.id);
  return inputs;
}

}  // namespace memest
