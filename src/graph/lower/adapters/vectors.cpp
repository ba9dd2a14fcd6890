// Adapters of trained vectors: peft's tuners/ia3/layer.py and tuners/vera/layer.py, Linear.forward.
#include "graph/lower/adapters/adapted_layer.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// 1 * ia3_l.flatten()
TensorId scales_of(BlockBuilder& block, std::string_view name, const Shape& shape) {
  const TensorId trained = block.trained_parameter({name, "weight"}, shape);
  const TensorId flat = view(block, {name, "flat"}, trained, {elements_of(shape)});
  return scale(block, {name, "scales"}, flat);
}

/// F.linear with one of the two matrices, of which every layer reads a part.
TensorId times_shared(BlockBuilder& block, const Projection2d& shape, const Rows& rows) {
  Frame call(block);
  call.local(rows.x);
  const TensorId matrix = block.tied_parameter({shape.name, shape.name}, {shape.out, shape.in});
  block.tensor(matrix).dtype = block.trained_type();
  return product_with(block, shape, {matrix, {}}, rows);
}

}  // namespace

TensorId ia3_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                   const AdaptedInput& input) {
  const std::string_view name = layer.names.scales;
  const TensorId x = input.rows.x;
  Frame forward(block);
  forward.local(x);
  if (!scales_input(*context.adapter, layer.module)) {
    const TensorId scales = forward.local(scales_of(block, name, {layer.shape.out, Expr(1)}));
    const TensorId result = input.base_layer(input.rows);
    // result = (result * ia3_scaling).to(result_dtype)
    Frame statement(block);
    statement.local(result);
    const TensorId scaled = multiply(block, {name, "scaled"}, result, scales);
    return cast(block, {name, "in type"}, scaled, block.dtype_of(result));
  }
  const TensorId scales = forward.local(scales_of(block, name, {Expr(1), layer.shape.in}));
  const TensorId wide = cast(block, {name, "input"}, x, block.trained_type());
  if (wide != x) forward.local(wide);
  // interm = (x * ia3_scaling).to(previous_dtype)
  const TensorId scaled = multiply(block, {name, "scaled"}, wide, scales);
  const TensorId narrow = forward.local(cast(block, {name, "in type"}, scaled, block.dtype_of(x)));
  return input.base_layer({input.rows.shape, narrow});
}

/// result + lambda_b * F.linear(lambda_d * F.linear(dropout(x), A), B)
TensorId vera_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                    const AdaptedResult& of) {
  const AdapterNames& names = layer.names;
  const Expr& in = layer.shape.in;
  const Expr& out = layer.shape.out;
  const Expr rank(context.adapter->rank);
  const TensorId x = of.rows.x;
  const DType type = block.dtype_of(of.result);
  Frame forward(block);
  forward.local(x);
  const TensorId wide = cast(block, {names.vera, "input"}, x, block.trained_type());
  if (wide != x) forward.local(wide);
  const TensorId input =
      dropout(block, names.vera, context.dropout(context.adapter->dropout), wide);
  const TensorId narrow = times_shared(block, {names.vera_a, in, rank}, {of.rows.shape, input});
  const TensorId d = block.trained_parameter({names.vera_d, "weight"}, {rank});
  const TensorId scaled = multiply(block, {names.vera_d, "scaled"}, d, narrow);
  const TensorId update = times_shared(block, {names.vera_b, rank, out}, {of.rows.shape, scaled});
  const TensorId lengths = block.trained_parameter({names.vera, "weight"}, {out});
  const TensorId own = multiply(block, {names.vera, "scaled"}, lengths, update);
  const TensorId sum = add(block, {names.vera, "sum"}, of.result, own);
  // result = result.to(orig_dtype), then result.to(previous_dtype): the input's
  const TensorId settled = cast(block, {names.vera, "in type"}, sum, type);
  return cast(block, {names.vera, "in input's type"}, settled, block.dtype_of(x));
}

}  // namespace memest
