#include "graph/lower/megatron/megatron_adapter.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "graph/lower/megatron/megatron_mappings.hpp"
#include "graph/lower/megatron/megatron_quantized.hpp"
#include "memest/spec/adapter.hpp"

namespace memest {
namespace {

/// A product of a layer, its module, and the names of its adapter's two products and of the sum.
struct WrappedLayer {
  std::string_view product;
  std::string_view module;
  std::string_view in;
  std::string_view out;
  std::string_view sum;
};
constexpr std::array kLayers = {
    WrappedLayer{"expert_up_proj", "linear_fc1", "expert_up_proj.linear_in",
                 "expert_up_proj.linear_out", "expert_up_proj.adapter"},
    WrappedLayer{"expert_down_proj", "linear_fc2", "expert_down_proj.linear_in",
                 "expert_down_proj.linear_out", "expert_down_proj.adapter"},
    WrappedLayer{"qkv_proj", "linear_qkv", "qkv_proj.linear_in", "qkv_proj.linear_out",
                 "qkv_proj.adapter"},
    WrappedLayer{"o_proj", "linear_proj", "o_proj.linear_in", "o_proj.linear_out",
                 "o_proj.adapter"},
    WrappedLayer{"up_proj", "linear_fc1", "up_proj.linear_in", "up_proj.linear_out",
                 "up_proj.adapter"},
    WrappedLayer{"down_proj", "linear_fc2", "down_proj.linear_in", "down_proj.linear_out",
                 "down_proj.adapter"}};

/// The row of a product that has an adapter; null where it has none.
const WrappedLayer* layer_of(const MegatronContext& context, std::string_view product) {
  const auto* const found = std::ranges::find(kLayers, product, &WrappedLayer::product);
  const bool adapted = found != kLayers.end() && adapts(*context.adapter, found->module);
  return adapted ? found : nullptr;
}

/// A product and the row of its adapter.
struct WrappedProduct {
  const WrappedLayer& layer;
  const ParallelProduct& product;
};

/// One of an adapter's two products.
struct TrainedProduct {
  std::string_view name;
  Expr in;
  Expr out;
  bool sums_input = false;  ///< the ranks' gradients of its input are summed
  bool shared = false;      ///< by the experts of all expert-parallel ranks
};

/// LinearWithGradAccumulationAndAsyncCommunication: keeps its input, and makes its gradient whether
/// that is wanted or not.
TensorId trained_product(BlockBuilder& block, const TrainedProduct& product, TensorId x) {
  const DType dtype = block.dtype_of(x);
  Shape shape = block.tensor(x).shape;
  shape.back() = product.out;
  const TensorId weight =
      block.trained_parameter({product.name, "weight"}, {product.out, product.in});
  Op op;
  op.kind = OpKind::linear;
  op.name = product.name;
  op.compute = dtype;
  op.inputs = {x, weight};
  op.saved = {x, weight};
  op.workspace = Workspace::cublas;
  op.outputs = {block.make({product.name, "out"}, std::move(shape), dtype)};
  if (product.sums_input && block.needs_gradient(x)) {
    op.backward_messages = {
        {.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes(), .asynchronous = true}};
  }
  if (product.shared) {
    // A hook of the weight sums its gradient over the ranks (_allreduce_shared_expert_grad).
    op.backward_messages.push_back({.kind = MessageKind::all_reduce,
                                    .group = RankGroup::expert,
                                    .bytes = block.tensor(weight).bytes()});
  }
  BackwardWriter backward(op);
  const bool wanted = block.needs_gradient(x);
  const auto of_input = backward.make(x, dtype);
  const auto of_weight = backward.make(weight, dtype);
  if (wanted) {
    backward.give(x, of_input);
  } else {
    backward.drop(of_input);
  }
  backward.give(weight, of_weight);
  const TensorId out = op.outputs.front();
  const Expr flops = Expr(2) * block.tensor(x).elements() * product.out;
  block.emit(std::move(op), {flops, Expr(2) * flops});
  return out;
}

/// gather_from_sequence_parallel_region, whose backward sums the ranks' gradients into shards.
TensorId gathered(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                  TensorId x) {
  const Expr width = block.tensor(x).shape.back();
  return exchanged(block, {{name, "gathered input"}, context.tokens(width), block.dtype_of(x)}, x,
                   {.backward = MessageKind::reduce_scatter});
}

/// gather_from_tensor_model_parallel_region: the ranks' parts one behind another, then joined along
/// the channels. A rank takes its part of the gradient.
TensorId joined(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                TensorId x) {
  if (context.policy.tensor == 1) return x;
  const Shape shape = context.tokens(block.tensor(x).shape.back() * context.t);
  const DType dtype = block.dtype_of(x);
  const TensorId parts = scratch(block, {name, "ranks' parts"}, shape, dtype);
  return exchanged(block, {{name, "joined"}, shape, dtype}, x,
                   {.kind = OpKind::concatenate, .scratch = {parts}});
}

TensorId dropped(BlockBuilder& block, const MegatronContext& context, const WrappedLayer& layer,
                 TensorId x) {
  return dropout(block, layer.sum, context.dropout(context.adapter->dropout), x);
}

/// Beside a column-parallel layer: linear_in's rows are cut over the ranks and its result gathered,
/// linear_out's are those of the layer.
TensorId column_adapter(BlockBuilder& block, const MegatronContext& context,
                        const WrappedProduct& wrapped, TensorId x) {
  const auto& [layer, product] = wrapped;
  const Expr rank(context.adapter->rank);
  const bool ranks = context.policy.tensor > 1;
  x = dropped(block, context, layer, x);
  if (product.gathers) x = gathered(block, context, layer.in, x);
  TensorId narrow = trained_product(
      block, {layer.in, product.in, rank / context.t, ranks && !context.sequence}, x);
  narrow = joined(block, context, layer.in, narrow);
  const TensorId wide = trained_product(block, {layer.out, rank, product.out, ranks}, narrow);
  return scale(block, {layer.out, "scaled"}, wide);
}

/// Beside a row-parallel one: linear_in's columns are those of the layer and its partial sums are
/// added up, linear_out's rows are cut over the ranks and its result gathered.
TensorId row_adapter(BlockBuilder& block, const MegatronContext& context,
                     const WrappedProduct& wrapped, TensorId x) {
  const auto& [layer, product] = wrapped;
  const Expr rank(context.adapter->rank);
  const bool ranks = context.policy.tensor > 1;
  x = dropped(block, context, layer, x);
  const TensorId narrow = trained_product(block, {layer.in, product.in, rank}, x);
  if (ranks) {
    block.send_forward({.kind = MessageKind::all_reduce, .bytes = block.tensor(narrow).bytes()});
  }
  TensorId wide = trained_product(block, {layer.out, rank, product.out / context.t, ranks}, narrow);
  wide = joined(block, context, layer.out, wide);
  if (context.sequence) wide = own_tokens(block, context, {layer.out, "own tokens"}, wide);
  return scale(block, {layer.out, "scaled"}, wide);
}

/// Whether a column-parallel product is LayerNormLinear's, which answers what its norm has.
bool returns_norm(const MegatronContext& context, const ParallelProduct& product) {
  return context.te() && !(context.norm_apart && product.name == "up_proj");
}

}  // namespace

TensorId adapted_experts(BlockBuilder& block, const MegatronContext& context,
                         const ExpertProduct& product, TensorId own) {
  const WrappedLayer* layer =
      context.adapter == nullptr ? nullptr : layer_of(context, product.name);
  if (layer == nullptr) return own;
  Frame wrapper(block);
  for (const TensorId local : {product.x, own}) wrapper.local(local);
  const bool shared = context.policy.expert > 1;
  const Expr rank(context.adapter->rank);
  const TensorId x = dropped(block, context, *layer, product.x);
  const TensorId narrow = trained_product(
      block, {.name = layer->in, .in = product.in, .out = rank, .shared = shared}, x);
  const TensorId wide = trained_product(
      block, {.name = layer->out, .in = rank, .out = product.out, .shared = shared}, narrow);
  const TensorId update = wrapper.local(scale(block, {layer->out, "scaled"}, wide));
  const Shape shape = block.tensor(own).shape;
  return add(block, {layer->sum}, own, view(block, {layer->out, "by expert"}, update, shape));
}

void give_input_gradient(BackwardWriter& backward, const MegatronContext& context,
                         const ParallelProduct& product, TensorId x) {
  const DType dtype = context.policy.weights;  // of all that flows between layers
  const auto of_product = backward.make(x, dtype);
  // LayerNormLinear's backward adds them into a third tensor (dgrad + grad_outputs[1]). Gathered
  // ones 2.2 adds up before it scatters; later releases do not.
  const bool gathered = product.returned && *product.returned != x;
  const bool adds =
      product.returned &&
      (!gathered || context.policy.implementation.transformer_engine == TeRelease::te_2_2);
  if (!adds) {
    backward.give(x, of_product);
    return;
  }
  const auto sum = backward.make(x, dtype);
  backward.drop(of_product);
  backward.give(x, sum);
}

TensorId frozen_product(BlockBuilder& block, const MegatronContext& context,
                        const ParallelProduct& product, TensorId x) {
  if (context.quantized) return quantized_product(block, context, product, x);
  if (product.gathers) x = gathered(block, context, product.name, x);
  const TensorId weight = weight_of(block, product);
  const DType dtype = block.dtype_of(x);
  const Shape shape =
      product.duplicated ? context.stream(product.out) : context.tokens(product.out);
  const Expr flops = Expr(2) * block.tensor(x).elements() * product.out;
  Op op;
  op.kind = OpKind::linear;
  op.name = product.name;
  op.compute = dtype;
  op.inputs = {x, weight};
  op.saved = {weight};
  // LayerNormLinear saves ln_out where it does not clear it, as it does without
  // return_layernorm_output.
  if (product.returned) op.saved.push_back(*product.returned);
  op.workspace = context.te() && !product.tied && product.name != "lm_head"
                     ? Workspace::transformer_engine
                     : Workspace::cublas;
  if (product.bias && !context.te()) {
    // LinearWithFrozenWeight adds the bias itself: the product is a tensor before it.
    op.forward_scratch = {scratch(block, {product.name, "product"}, shape, dtype)};
    op.forward_steps = {{StepKind::allocate, 0},
                        {StepKind::product, 0},
                        {StepKind::allocate, 1},
                        {StepKind::free, 0}};
  }
  if (product.bias) {
    op.inputs.push_back(block.parameter({product.name, "bias"}, {product.out}));
  }
  op.outputs = {block.make({product.name, "out"}, shape, dtype)};
  const bool parts = !product.by_rows && !product.duplicated;
  const bool sums = context.policy.tensor > 1 && !context.sequence && parts;
  if (sums && block.needs_gradient(x)) {
    op.backward_messages = {{.kind = MessageKind::all_reduce, .bytes = block.tensor(x).bytes()}};
  }
  BackwardWriter backward(op);
  give_input_gradient(backward, context, product, x);
  const TensorId out = op.outputs.front();
  block.emit(std::move(op), {flops, flops});
  return out;
}

TensorId adapted_column_product(BlockBuilder& block, const MegatronContext& context,
                                ParallelProduct product, TensorId x) {
  const WrappedLayer* layer = layer_of(context, product.name);
  if (layer == nullptr) return frozen_product(block, context, product, x);
  Frame wrapper(block);
  const bool returns = returns_norm(context, product);
  // In 16 bits the rank's own rows stay with what saves them; cast ones take their place.
  if (!returns || !context.quantized) wrapper.local(x);
  TensorId normed = x;
  if (returns) product.returned = x;
  if (returns && product.gathers) {
    // return_layernorm_output_gathered: the adapter takes what the layer has gathered.
    normed = gathered(block, context, product.name, x);
    product.gathers = false;
  }
  wrapper.local(normed);
  const TensorId own = wrapper.local(frozen_product(block, context, product, normed));
  const TensorId update = wrapper.local(column_adapter(block, context, {*layer, product}, normed));
  return add(block, {layer->sum}, own, update);
}

TensorId adapted_row_product(BlockBuilder& block, const MegatronContext& context,
                             const ParallelProduct& product, TensorId x) {
  const WrappedLayer* layer = layer_of(context, product.name);
  const auto frozen = [&] {
    if (context.quantized) return quantized_product(block, context, product, x);
    return reduced(block, context, product.name, frozen_product(block, context, product, x));
  };
  if (layer == nullptr) return frozen();
  Frame wrapper(block);
  wrapper.local(x);
  const TensorId own = wrapper.local(frozen());
  const TensorId update = wrapper.local(row_adapter(block, context, {*layer, product}, x));
  return add(block, {layer->sum}, own, update);
}

namespace {

Unavailable no(const std::string& what) { return {what + " under Megatron is not available yet"}; }

/// Megatron-Bridge's adapter of experts that are cut sums nothing over the ranks that have the
/// parts (RowParallelLinear with explicit_expert_comm), which is not followed.
std::optional<Unavailable> expert_refusal(const ModelSpec& model, const LoweringPolicy& policy) {
  const MixtureOfExperts* experts = model.experts();
  if (experts == nullptr) return std::nullopt;
  if (policy.implementation.layers != LayerSpec::te) {
    return no("an adapter beside experts of local layers");
  }
  const bool adapted = adapts(*model.adapter, "linear_fc1") || adapts(*model.adapter, "linear_fc2");
  if (adapted && policy.tensor > 1 && !policy.whole_experts) {
    return no("an adapter of experts that are cut over tensor-parallel ranks");
  }
  if (experts->expert_bias || experts->shared_gate) {
    return no("an adapter beside experts with biases or a gate");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Unavailable> adapter_refusal(const ModelSpec& model, const LoweringPolicy& policy) {
  if (!model.adapter) return std::nullopt;
  const Adapter& adapter = *model.adapter;
  const auto& decoder = std::get<DecoderSpec>(model.architecture);
  if (policy.implementation.layers == LayerSpec::legacy) {
    return no("an adapter of legacy layers");
  }
  if (auto refused = expert_refusal(model, policy)) return refused;
  const auto* attention = std::get_if<SoftmaxAttention>(&decoder.attention);
  if (attention != nullptr && attention->sinks) return no("an adapter beside attention sinks");
  if (!adapter.whole_modules.empty()) return no("training of modules in full beside adapters");
  for (const std::string& target : adapter.targets) {
    if (std::ranges::find(kLayers, target, &WrappedLayer::module) == kLayers.end()) {
      return no("an adapter of '" + target +
                "' (known are linear_qkv, linear_proj, linear_fc1 "
                "and linear_fc2)");
    }
  }
  if (adapter.rank % policy.tensor != 0) {
    return Unavailable{"the adapter's rank " + std::to_string(adapter.rank) +
                       " cannot be cut evenly over " + std::to_string(policy.tensor) +
                       " tensor-parallel ranks"};
  }
  return std::nullopt;
}

}  // namespace memest
