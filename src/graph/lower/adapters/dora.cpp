// peft's tuners/lora/dora.py and DoraLinearVariant.forward; torchtune's modules/peft/dora.py, whose
// lines are the same in another order, under names that all live until the layer answers.
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/lower/adapters/adapted_layer.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/quantized/torchao_linear.hpp"

namespace memest {
namespace {

/// The adapter's trained tensors; the matrices as products take them.
struct TrainedTensors {
  TensorId a = 0;
  TensorId b = 0;
  TensorId magnitude = 0;
};

class DoraForward {
 public:
  DoraForward(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer)
      : block_(block),
        context_(context),
        names_(layer.names),
        shape_(layer.shape),
        codes_(layer.codes),
        own_(context.program.adapter == AdapterWriting::of_modules),
        rank_(context.adapter->rank) {
    trained_.a = block_.trained_parameter({names_.a, "weight"}, {rank_, shape_.in});
    trained_.b = block_.trained_parameter({names_.b, "weight"}, {shape_.out, rank_});
    trained_.magnitude = block_.trained_parameter({names_.magnitude, "weight"}, {shape_.out});
  }

  /// DoraLinearLayer.forward; `base`: what the layer answers, of which the bias is taken, or
  /// nothing where its product runs again, on what dropout has left of the input. torchtune's
  /// DoRALinear.forward adds the base to it.
  TensorId run(const Rows& rows, std::optional<TensorId> base) {
    type_ = block_.dtype_of(rows.x);
    Frame forward(block_);
    std::optional<TensorId> low_rank;
    if (own_) low_rank = low_rank_result(rows);
    std::vector<TensorId> graph;  // what the update's graph keeps, which ends with the update
    const TensorId update =
        cast(block_, {names_.norm, "update in type"}, update_of_weight(graph, forward), type_);
    // A leaf: no gradient of its own beside a frozen matrix.
    const TensorId weight = cast(block_, {names_.norm, "weight in type"}, base_weight(), type_);
    const TensorId norm = row_norms(weight, update);
    const TensorId ratio = multiply(block_, {names_.norm, "ratio"}, trained_.magnitude, norm);
    const TensorId scale_of_rows =
        view(block_, {names_.norm, "scale"}, ratio, {Expr(1), shape_.out});
    if (!own_) low_rank = low_rank_result(rows);
    const TensorId plain = base ? without_bias(*base) : base_product(weight, rows);
    if (!base || plain != *base) forward.local(plain);
    for (const TensorId id : graph) forward.local(id);
    for (const TensorId id : {update, weight, norm, ratio, *low_rank}) forward.local(id);
    const TensorId adapted = scaled_sum(scale_of_rows, plain, *low_rank);
    if (!own_) return adapted;
    forward.local(adapted);
    return add(block_, {names_.sum, "sum"}, adapted, plain);
  }

 private:
  /// dequantize_module_weight(base_layer): of codes in the type that they were made from, whose
  /// quantised scales come first.
  [[nodiscard]] TensorId base_weight() const {
    TensorId weight = *block_.find({shape_.name, "weight"});
    if (!codes_) return weight;
    const QuantizedWeights& quantized = *context_.quantized;
    if (row_of(quantized.format).of_torchao()) return torchao_weight(block_, context_, shape_);
    const Expr groups = shape_.in * shape_.out / Expr(quantized.group_size);
    std::vector<TensorId> of = {weight};
    if (quantized.double_quant) {
      of.push_back(
          compute(block_, OpKind::copy, of, {{names_.norm, "absmax"}, {groups}, DType::fp32}));
    }
    return compute(
        block_, OpKind::copy, of,
        {{names_.norm, "dequantized weight"}, {shape_.out, shape_.in}, context_.policy.compute});
  }

  /// As below, in a function of peft's or in the layer's own.
  TensorId update_of_weight(std::vector<TensorId>& graph, Frame& layer) {
    if (own_) return update_within(layer, graph);
    Frame function(block_);
    return update_within(function, graph);
  }

  /// lora_B(lora_A(torch.eye(in))).T, to which no gradient comes.
  TensorId update_within(Frame& function, std::vector<TensorId>& graph) {
    const TensorId unit = function.local(
        compute(block_, OpKind::mask, {},
                {{names_.norm, "eye"}, {shape_.in, shape_.in}, block_.trained_type()}));
    trained_.a = parameter_in_compute(block_, {names_.unit_a, "cast weight"}, trained_.a);
    std::size_t first = block_.ops().size();
    const TensorId narrow = product(names_.unit_a, trained_.a, {{shape_.in}, unit}, rank_);
    const std::vector<TensorId> kept = block_.abandon(first);
    trained_.b = parameter_in_compute(block_, {names_.unit_b, "cast weight"}, trained_.b);
    first = block_.ops().size();
    const TensorId product_of_both =
        product(names_.unit_b, trained_.b, {{shape_.in}, narrow}, shape_.out);
    const TensorId update =
        view(block_, {names_.norm, "update"}, product_of_both, {shape_.out, shape_.in});
    // x_eye is named until the function returns.
    block_.ops().back().inputs.push_back(unit);
    graph = block_.abandon(first);
    graph.insert(graph.end(), kept.begin(), kept.end());
    // Where a checkpoint keeps no graph, each ends with its own last use.
    for (const TensorId id : graph) block_.tensor(id).held_by_graph = true;
    return update;
  }

  TensorId product(std::string_view name, TensorId matrix, const Rows& rows, const Expr& out) {
    const Expr in = block_.tensor(matrix).shape.back();
    return product_with(block_, {name, in, out}, {matrix, {}}, rows);
  }

  /// torch.linalg.norm(weight + scaling * update, dim=1).to(weight.dtype): one of autocast's
  /// operations in fp32, which widens as it sums (fp32_set_opt_dtype).
  TensorId row_norms(TensorId weight, TensorId update) {
    Frame function(block_);
    const Shape shape = {shape_.out, shape_.in};
    const TensorId scaled =
        compute(block_, OpKind::scale, {update}, {{names_.norm, "scaled update"}, shape, type_});
    const TensorId sum = function.local(compute(block_, OpKind::add, {weight, scaled},
                                                {{names_.norm, "adapted weight"}, shape, type_}));
    const DType wide = block_.precision().autocast ? DType::fp32 : type_;
    const TensorId norm =
        compute(block_, OpKind::reduce, {sum}, {{names_.norm, "row norms"}, {shape_.out}, wide});
    block_.ops().back().forward_launches = {sum_between(shape, {shape_.out, Expr(1)}, type_)};
    return cast(block_, {names_.norm, "row norms in type"}, norm, type_);
  }

  TensorId low_rank_result(const Rows& rows) {
    const TensorId narrow = product(names_.a, trained_.a, rows, rank_);
    return product(names_.b, trained_.b, {rows.shape, narrow}, shape_.out);
  }

  /// base_result - base_layer.bias; torchtune leaves it in.
  TensorId without_bias(TensorId result) {
    if (!shape_.bias || own_) return result;
    return add(block_, {names_.norm, "without bias"}, result, *block_.find({shape_.name, "bias"}));
  }

  /// F.linear(x, weight)
  TensorId base_product(TensorId weight, const Rows& rows) {
    return product_with(block_, {names_.plain, shape_.in, shape_.out}, {weight, {}}, rows);
  }

  /// (mag_norm_scale - 1) * base_result + mag_norm_scale * lora_result * scaling
  TensorId scaled_sum(TensorId scale_of_rows, TensorId plain, TensorId low_rank) {
    const TensorId less_one = add_number(block_, {names_.norm, "scale less one"}, scale_of_rows);
    const TensorId of_base = multiply(block_, {names_.norm, "base"}, less_one, plain);
    const TensorId of_update = multiply(block_, {names_.norm, "low rank"}, scale_of_rows, low_rank);
    const TensorId scaled = scale(block_, {names_.norm, "scaled low rank"}, of_update);
    return add(block_, {names_.norm, "sum"}, of_base, scaled);
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const AdapterNames& names_;
  const Projection2d& shape_;
  bool codes_;
  bool own_;  // torchtune's
  Expr rank_;
  TrainedTensors trained_;
  DType type_ = DType::fp32;  // of the layer's input, which all is computed in
};

}  // namespace

TensorId dora_layer(BlockBuilder& block, const DecoderContext& context, const AdaptedLayer& layer,
                    const AdaptedResult& of) {
  const DType type = block.dtype_of(of.result);
  const LayerHabits habits = layer_habits(context, layer.codes);
  const TensorId x = of.rows.x;
  Frame frame(block);
  frame.local(x);
  const TensorId result = habits.clones ? copy(block, {layer.names.sum, "clone"}, of.result,
                                               block.tensor(of.result).shape)
                                        : of.result;
  const TensorId wide =
      habits.converts ? cast(block, {layer.names.sum, "input"}, x, block.trained_type()) : x;
  TensorId sum = 0;
  {
    Frame variant(block);
    const double probability = context.dropout(context.adapter->dropout);
    const TensorId input = dropout(block, layer.names.sum, probability, wide);
    const bool torchtune = context.program.adapter == AdapterWriting::of_modules;
    std::optional<TensorId> base;
    if (input == wide || torchtune) base = result;
    sum = DoraForward(block, context, layer).run({of.rows.shape, input}, base);
    if (!torchtune) sum = add(block, {layer.names.sum, "sum"}, result, sum);
    if (input != wide) variant.local(input);
    variant.local(result);
  }
  if (wide != x) frame.local(wide);
  // result = result.to(torch_result_dtype); over codes where autocast does not convert.
  if (!habits.converts) return sum;
  return cast(block, {layer.names.sum, "in type"}, sum, type);
}

}  // namespace memest
