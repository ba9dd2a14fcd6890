// torchtune/modules/position_embeddings.py: RotaryPositionalEmbeddings.forward, and its like of
// Llama 3.1 (models/llama3_1/_position_embeddings.py).
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/torchtune/torchtune.hpp"

namespace memest {
namespace {

/// Cosines and sines of all positions that torchtune's model is made for, of which it reads the
/// sequence's: a part of a buffer.
TensorId rotary_cache(BlockBuilder& block, const DecoderContext& context) {
  const Shape shape = {context.dims.s, Expr(1), context.dims.d / Expr(2)};
  const TensorId table = block.shared(kRotaryCache, shape, DType::fp32);
  block.tensor(table).role = Role::buffer;
  return table;
}

}  // namespace

TensorId rotated_pairs(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                       TensorId x) {
  const DType given = block.dtype_of(x);
  Frame function(block);
  const TensorId wide = function.local(cast(block, {name, "in fp32"}, x, DType::fp32));
  const TensorId table = rotary_cache(block, context);
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

}  // namespace memest
