// TransformerLayer: norms, self-attention, MLP and the sums that bias_dropout_add makes.
#include <optional>
#include <string_view>

#include "megatron.hpp"

namespace memest {
namespace {

/// residual + dropout(x + bias); the branch's tensors are held until the function returns.
TensorId bias_dropout_add(BlockBuilder& block, const MegatronContext& context,
                          std::string_view branch, TensorId residual, TensorId x, bool biased) {
  const bool of_attention = branch == "o_proj";
  Frame call(block);
  call.local(x);
  if (biased) {
    x = call.local(
        add(block, {branch, "with bias"}, x, block.parameter({branch, "bias"}, {context.h})));
  }
  x = dropout(block, of_attention ? "attention_output_dropout" : "feed_forward_dropout",
              context.dropout(context.decoder.dropout.residual), x);
  call.local(x);
  return add(block, {of_attention ? "attention_residual" : "feed_forward_residual"}, residual, x);
}

/// The layer names the norm's output where that is a module of its own.
TensorId held(Frame& call, const MegatronContext& context, TensorId normed) {
  return context.te() ? normed : call.local(normed);
}

}  // namespace

TensorId megatron_norm(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                       TensorId x) {
  const Norm& norm = context.decoder.norm;
  NormKernelPart part{.name = name, .rms = norm.kind == NormKind::rmsnorm};
  part.gain = block.parameter({name, "weight"}, {context.h});
  if (norm.bias) part.bias = block.parameter({name, "bias"}, {context.h});
  return normalize(block, part, x);
}

Block megatron_layer(const MegatronContext& context, bool makes_table) {
  BlockBuilder block("layer", context.precision());
  const TensorId x = block.block_input(context.stream(), context.policy.weights);
  if (makes_table) rotary_table(block, context);
  TensorId y = 0;
  {
    Frame call(block);
    const TensorId normed = held(call, context, megatron_norm(block, context, "attention_norm", x));
    const TensorId mixed = megatron_attention(block, context, normed);
    y = bias_dropout_add(block, context, "o_proj", x, mixed, context.attention.output_bias);
  }
  TensorId out = 0;
  {
    Frame call(block);
    call.local(y);
    const TensorId normed =
        held(call, context, megatron_norm(block, context, "feed_forward_norm", y));
    const TensorId fed = megatron_feed_forward(block, context, normed);
    out = bias_dropout_add(block, context, "down_proj", y, fed, context.feed_forward.bias);
  }
  return std::move(block).take(out, true);
}

}  // namespace memest
