// TransformerLayer: norms, self-attention, MLP and the sums that bias_dropout_add makes.
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {
namespace {

/// A branch of the layer by the names of its operations.
struct BranchNames {
  std::string_view projection;
  std::string_view dropout;
  std::string_view sum;
};
constexpr BranchNames kAttention{"o_proj", "attention_output_dropout", "attention_residual"};
constexpr BranchNames kFeedForward{"down_proj", "feed_forward_dropout", "feed_forward_residual"};

struct NormOfLayer {
  std::string_view name;
  TensorId x = 0;
};

struct Summands {
  TensorId residual = 0;
  TensorId x = 0;
  bool biased = false;  ///< x is still without its projection's bias
};

/// residual + dropout(x + bias); the branch's tensors are held until the function returns.
TensorId bias_dropout_add(BlockBuilder& block, const MegatronContext& context,
                          const BranchNames& branch, const Summands& summands) {
  TensorId x = summands.x;
  Frame call(block);
  call.local(x);
  const double probability = context.dropout(context.decoder.dropout.residual);
  const bool fused = context.legacy() && context.policy.implementation.bias_dropout_fusion;
  // The kernel draws its mask at a probability of 0 too.
  if (fused && summands.biased) {
    const TensorId bias = block.parameter({branch.projection, "bias"}, {context.h});
    return fused_bias_dropout_add(block, {branch.sum, x, bias, summands.residual});
  }
  if (summands.biased) {
    // _bias_dropout_add_func: x = x + bias, out = dropout(x), out = residual + out; only evaluation
    // runs in place.
    x = call.local(add(block, {branch.projection, "with bias"}, x,
                       block.parameter({branch.projection, "bias"}, {context.h})));
  }
  x = dropout(block, branch.dropout, probability, x);
  call.local(x);
  return add(block, {branch.sum}, summands.residual, x);
}

/// The layer names the norm's output where that is a module of its own.
TensorId held(Frame& call, const MegatronContext& context, TensorId normed) {
  // TransformerLayer.forward names input_layernorm_output and pre_mlp_layernorm_output; with
  // Transformer Engine a dense layer's are IdentityOp.
  return context.te() ? normed : call.local(normed);
}

/// MLP or MoELayer, which recompute runs again by different words.
TensorId fed_forward(BlockBuilder& block, const MegatronContext& context, bool has_experts,
                     TensorId x) {
  const PartOfLayer inside(block, has_experts ? &LayerParts::experts : &LayerParts::feed_forward);
  return has_experts ? megatron_experts(block, context, x)
                     : megatron_feed_forward(block, context, x);
}

/// TransformerLayer.forward throws the answer of a norm that is a module of its own away behind the
/// branch that reads it, where norms are recomputed.
TensorId remade_norm(BlockBuilder& block, const MegatronContext& context, bool own_module,
                     const NormOfLayer& norm) {
  const std::size_t first = block.ops().size();
  const TensorId normed = megatron_norm(block, context, norm.name, norm.x);
  if (own_module) mark_remade(block, first, Remade::norm, {normed});
  return normed;
}

/// can_recompute_pre_mlp_layernorm_for_cudagraph: captured with the router alone the norm's answer
/// is one of the graph's, in a static buffer, and Megatron leaves it there.
bool answers_norm_from_graph(const MegatronContext& context) {
  const CudaGraphs& graphs = context.policy.implementation.cuda_graph;
  return graphs.has(GraphScope::moe_router) && !graphs.has(GraphScope::moe_preprocess);
}

void drop_norm(BlockBuilder& block, bool own_module) {
  if (own_module) block.ops().back().drops = Remade::norm;
}

/// "layer", "layer of experts (bf16)", ...
std::string name_of(const MegatronLayer& layer) {
  return std::string(layer.has_experts ? "layer of experts" : "layer") +
         (layer.window > 0 ? " (window)" : "") + (layer.in_bf16 ? " (bf16)" : "");
}

}  // namespace

void mark_remade(BlockBuilder& block, std::size_t first, Remade kind,
                 std::initializer_list<TensorId> results) {
  for (std::size_t i = first; i < block.ops().size(); ++i) {
    Op& op = block.ops()[i];
    op.remade = kind;
    op.answers_part = std::ranges::find_first_of(op.outputs, results) != op.outputs.end();
  }
}

TensorId megatron_norm(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                       TensorId x) {
  const Norm& norm = context.decoder.norm;
  NormKernelPart part{.name = name, .rms = norm.kind == NormKind::rmsnorm};
  part.gain = block.parameter({name, "weight"}, {context.h});
  if (norm.bias) part.bias = block.parameter({name, "bias"}, {context.h});
  return normalize(block, part, x);
}

TensorId transformer_layer(BlockBuilder& block, const MegatronContext& context,
                           const MegatronLayer& layer, TensorId x) {
  block.begin_parts();
  TensorId y = 0;
  {
    Frame call(block);
    // With Transformer Engine input_layernorm is IdentityOp, but before latents.
    const bool own_module = !context.te() || context.latent;
    const TensorId normed =
        held(call, context, remade_norm(block, context, own_module, {"attention_norm", x}));
    const TensorId mixed = megatron_attention(block, context, normed);
    drop_norm(block, own_module);
    y = bias_dropout_add(block, context, kAttention, {x, mixed, context.attention.output_bias});
  }
  block.end_part(GraphScope::attn);
  TensorId out = 0;
  {
    Frame call(block);
    call.local(y);
    // So is pre_mlp_layernorm, but before experts.
    const bool own_module = !context.te() || layer.has_experts;
    const bool remade = own_module && !(layer.has_experts && answers_norm_from_graph(context));
    const TensorId normed =
        held(call, context, remade_norm(block, context, remade, {"feed_forward_norm", y}));
    const TensorId fed = fed_forward(block, context, layer.has_experts, normed);
    drop_norm(block, remade);
    const bool biased = !layer.has_experts && context.feed_forward.bias;
    out = bias_dropout_add(block, context, kFeedForward, {y, fed, biased});
  }
  block.end_part(layer.has_experts ? GraphScope::moe : GraphScope::mlp);
  return out;
}

Block megatron_layer(const MegatronContext& model, const MegatronLayer& layer) {
  MegatronContext context = model;
  if (!layer.in_bf16) context.quantized = context.policy.te_linears;
  context.window = layer.window;
  BlockBuilder block(name_of(layer), context.precision());
  const TensorId x =
      block.block_input(context.stream(), context.policy.weights, layer.wants_gradient);
  if (layer.makes_table) rotary_table(block, context);
  const TensorId out = transformer_layer(block, context, layer, x);
  if (layer.ends_model) block.let_go(kEmbedded);
  return std::move(block).take(out, true);
}

}  // namespace memest
