// torchtune/modules/position_embeddings.py: RotaryPositionalEmbeddings.forward, its like of Llama
// 3.1 (models/llama3_1/_position_embeddings.py), and Qwen2's own
// (models/qwen2/_positional_embeddings.py).
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/torchtune/torchtune.hpp"

namespace memest {
namespace {

/// Cosines and sines of all positions that torchtune's model is made for, of which it reads the
/// sequence's: a part of a buffer.
TensorId rotary_cache(BlockBuilder& block, const DecoderContext& context, const Expr& channels) {
  const TensorId table =
      block.shared(kRotaryCache, {context.dims.s, Expr(1), channels}, DType::fp32);
  block.tensor(table).role = Role::buffer;
  return table;
}

/// Neighbouring channels in fp32, one after the other.
TensorId rotated_pairs(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                       TensorId x) {
  const DType given = block.dtype_of(x);
  Frame function(block);
  const TensorId wide = function.local(cast(block, {name, "in fp32"}, x, DType::fp32));
  const TensorId table = rotary_cache(block, context, context.dims.d / Expr(2));
  Shape half = block.tensor(wide).shape;
  half.back() = half.back() / Expr(2);
  const auto product = [&](std::string_view channels, std::string_view by) {
    return multiply(block, {name, by}, slice(block, {name, channels}, wide, half), table);
  };
  const TensorId even_cosine = product("even channels", "even cosine");
  const TensorId odd_sine = product("odd channels", "odd sine");
  const TensorId even = subtract(block, {name, "even turned"}, even_cosine, odd_sine);
  const TensorId odd_cosine = product("odd channels again", "odd cosine");
  const TensorId even_sine = product("even channels again", "even sine");
  const TensorId odd = add(block, {name, "odd turned"}, odd_cosine, even_sine);
  const TensorId turned = [&] {
    Frame list(block);  // which lets its last element go first
    for (const TensorId part : {odd, even}) list.local(part);
    return concatenate(block, {name, "turned"}, {{even, odd}}, block.tensor(wide).shape);
  }();
  function.local(turned);
  return cast(block, {name, "in type"}, turned, given);
}

/// Both halves of the channels in the given type, to which every call casts its own cosines and
/// sines: (x * cos) + (rotated * sin).
TensorId rotated_halves(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                        TensorId x) {
  Frame function(block);
  const DType given = block.dtype_of(x);
  const Shape shape = block.tensor(x).shape;
  const TensorId table = rotary_cache(block, context, context.dims.d);
  const auto in_type = [&](std::string_view which) {
    if (given == DType::fp32) return table;
    const Made made{{name, which}, block.tensor(table).shape, given};
    return function.local(compute(block, OpKind::cast, {table}, made));
  };
  const TensorId cosines = in_type("cosines");
  const TensorId sines = in_type("sines");
  Shape half = shape;
  half.back() = half.back() / Expr(2);
  const TensorId low = slice(block, {name, "low half"}, x, half);
  const TensorId high = slice(block, {name, "high half"}, x, half);
  const TensorId negated = scale(block, {name, "negated half"}, high);
  const TensorId turned =
      function.local(concatenate(block, {name, "half turned"}, {{negated, low}}, shape));
  const TensorId cosine = multiply(block, {name, "cosine product"}, x, cosines);
  const TensorId sine = multiply(block, {name, "sine product"}, turned, sines);
  return add(block, {name, "turned"}, cosine, sine);
}

}  // namespace

TensorId rotated_by_table(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                          TensorId x) {
  return is_of_qwen2(context.attention) ? rotated_halves(block, context, name, x)
                                        : rotated_pairs(block, context, name, x);
}

}  // namespace memest
