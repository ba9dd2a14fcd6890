#include "graph/lower/adapters/adapted_layer.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {

LayerHabits layer_habits(const DecoderContext& context, bool codes) {
  // tuners/lora/layer.py: lora.Linear casts its input in any case; lora/bnb.py and lora/hqq.py
  // where autocast would not (requires_conversion). lora.Linear4bit clones what its layer answers,
  // lora.Linear8bitLt does not.
  const AdapterWriting writing = context.program.adapter;
  const bool own = writing != AdapterWriting::of_peft;
  if (!codes || own) {
    return {.converts = !own,
            .names_parts = own,
            .names_rank = writing == AdapterWriting::of_modules,
            .by_hand = writing == AdapterWriting::by_hand};
  }
  const WeightFormatRow& format = row_of(context.quantized->format);
  return {.clones = format.in_params_4bit(),
          .converts = !context.policy.autocast,
          .sums_in_type = !format.of_hqq()};
}

TensorId adapted(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                 const AdaptedInput& input) {
  const AdapterKind kind = context.adapter->kind;
  if (kind == AdapterKind::ia3) return ia3_layer(block, context, layer, input);
  Rows rows = input.rows;
  // PostBackwardFunctionModule, on what a module is given: the gradients of both branches meet
  // there.
  if (context.policy.in_pieces) rows.x = same(block, {layer.names.sum, "given"}, rows.x);
  const AdaptedResult of{rows, input.base_layer(rows)};
  if (kind == AdapterKind::dora) return dora_layer(block, context, layer, of);
  if (kind == AdapterKind::vera) return vera_layer(block, context, layer, of);
  return lora_layer(block, context, layer, of);
}

TensorId times_trained(BlockBuilder& block, const Projection2d& shape, const Rows& rows) {
  Frame module(block);
  module.local(rows.x);
  const TensorId weight = block.trained_parameter({shape.name, "weight"}, {shape.out, shape.in});
  return product_with(block, shape, {weight, {}}, rows);
}

/// result + lora_B(lora_A(dropout(x))) * scaling, from the inside out.
TensorId lora_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                    const AdaptedResult& of) {
  const AdapterNames& names = layer.names;
  const Projection2d& shape = layer.shape;
  const Adapter& lora = *context.adapter;
  const LayerHabits habits = layer_habits(context, layer.codes);
  const TensorId x = of.rows.x;
  const DType type = block.dtype_of(of.result);
  const Expr rank(lora.rank);
  Frame frame(block);
  frame.local(x);
  const TensorId result =
      habits.clones ? copy(block, {names.sum, "clone"}, of.result, block.tensor(of.result).shape)
                    : of.result;
  // x = self._cast_input_dtype(x, lora_A.weight.dtype): fp32 beside 16-bit weights, twice the
  // bytes, and kept by lora_A.
  const TensorId wide =
      habits.converts ? cast(block, {names.sum, "input"}, x, block.trained_type()) : x;
  if (wide != x) frame.local(wide);
  const TensorId input = dropout(block, names.sum, context.dropout(lora.dropout), wide);
  const BiasCall call = habits.by_hand ? BiasCall::own_op : BiasCall::last_argument;
  const TensorId narrow =
      times_trained(block, {names.a, shape.in, rank, false, false, call}, {of.rows.shape, input});
  const TensorId update =
      times_trained(block, {names.b, rank, shape.out, false, false, call}, {of.rows.shape, narrow});
  TensorId scaled = [&] {
    Frame renaming(block);
    if (habits.names_rank) renaming.local(narrow);
    return scale(block, {names.b, "scaled"}, update);
  }();
  if (habits.names_parts) {
    for (const TensorId part : {result, scaled}) frame.local(part);
  }
  if (habits.sums_in_type) {
    if (habits.converts) scaled = cast(block, {names.b, "in type"}, scaled, type);
    frame.local(scaled);
  }
  const TensorId sum = add(block, {names.sum, "sum"}, result, scaled);
  // result = result.to(torch_result_dtype)
  const bool settles = !layer.codes || (!habits.sums_in_type && habits.converts);
  return settles ? cast(block, {names.sum, "in type"}, sum, type) : sum;
}

}  // namespace memest
