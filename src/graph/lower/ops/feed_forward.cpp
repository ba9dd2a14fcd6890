#include <functional>
#include <string_view>
#include <vector>

#include "graph/lower/float8/float8_parallel.hpp"
#include "graph/lower/liger/liger.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// The first projections of a feed-forward.
struct UpProjections {
  const DenseFeedForward& part;
  const Shape& rows;  ///< of the input, but for its width
  const Expr& size;
  /// The input's product by the projection of a name, which answers so many columns.
  std::function<TensorId(std::string_view, const Expr&)> to;
};

/// act(gate) · up; its locals end with `frame`.
TensorId gated_product(BlockBuilder& block, const DecoderContext& context, Frame& frame,
                       const UpProjections& up) {
  const auto act = [&](TensorId gate) {
    return activation(block, {"activation", up.part.activation, context.program.activation}, gate);
  };
  if (up.part.fused_gate_up) {
    // Phi3MLP, GlmMLP: gate, up = gate_up_proj(x).chunk(2, dim=-1); up · act(gate). Chunks are
    // views, whose gradients come back as one tensor.
    const TensorId both = frame.local(up.to("gate_up_proj", Expr(2) * up.size));
    Shape half = up.rows;
    half.push_back(up.size);
    const std::vector<TensorId> parts =
        split(block, "gate_up_proj", both,
              {{{"gate_up_proj", "gate"}, half}, {{"gate_up_proj", "up"}, half}});
    const TensorId gated = act(parts[0]);
    return multiply(block, {"gate_times_up"}, parts[1], gated);
  }
  if (context.liger().gated) {
    const TensorId gate = up.to("gate_proj", up.size);
    return liger_gate(block, gate, up.to("up_proj", up.size));
  }
  if (context.habits.activates_last) {
    // litgpt's LLaMAMLP: x = silu(x_fc_1) * x_fc_2.
    const TensorId gate = frame.local(up.to("gate_proj", up.size));
    const TensorId factor = frame.local(up.to("up_proj", up.size));
    return multiply(block, {"gate_times_up"}, act(gate), factor);
  }
  // LlamaMLP: act_fn(gate_proj(x)) * up_proj(x): the gate runs first, its activation lies beside
  // up's product.
  const TensorId gated = act(up.to("gate_proj", up.size));
  return multiply(block, {"gate_times_up"}, gated, up.to("up_proj", up.size));
}

}  // namespace

TensorId feed_forward(BlockBuilder& block, const DecoderContext& context,
                      const DenseFeedForward& part, const Branch& branch) {
  const TensorId x = branch.x;
  const Dimensions& dims = context.dims;
  const Expr size = context.feed_forward_size(part.size);
  const Shape rows = branch.rows.empty() ? dims.rows() : branch.rows;
  const ActivationPart function = {"activation", part.activation, context.program.activation};
  const auto up_to = [&](std::string_view name, const Expr& out) {
    return projection(block, context, {name, dims.h, out, part.bias, false, context.bias_call()},
                      {rows, x});
  };

  Frame frame(block);
  if (context.program.feed_forward_module && !context.habits.feeds_inline) {
    hold_with_scale(block, frame, x);
  }
  TensorId hidden = part.gated ? gated_product(block, context, frame, {part, rows, size, up_to})
                               : activation(block, function, up_to("up_proj", size));
  hidden = dropout(block, "activation_dropout",
                   context.dropout(context.decoder.dropout.feed_forward), hidden);
  Frame call(block);
  const TensorId operand = summed_input(block, context, "down_proj", hidden);
  if (context.shards_tensors()) hold_with_scale(block, call, operand);
  if (operand != hidden) call.local(hidden);
  if (branch.residual) frame.local(hidden);
  TensorId out = projection(block, context,
                            {"down_proj", size, dims.h, part.bias, false, context.bias_call(),
                             branch.rows.empty() ? context.summed_rows() : rows},
                            {rows, operand});
  out = scattered_output(block, context, "feed_forward_shard", out);
  if (branch.residual)
    return dropped_sum(block, context, BranchKind::feed_forward, {out, branch.residual});
  return dropout(block, "feed_forward_dropout", context.dropout_inside(), out);
}

TensorId dropped_sum(BlockBuilder& block, const DecoderContext& context, BranchKind kind,
                     const Branch& branch) {
  const bool of_attention = kind == BranchKind::attention;
  Frame frame(block);
  frame.local(branch.x);
  const Dropout& rates = context.decoder.dropout;
  const bool as_scores = of_attention && context.habits.drops_attention_as_scores;
  const TensorId dropped =
      dropout(block, of_attention ? "attention_output_dropout" : "feed_forward_dropout",
              context.dropout(as_scores ? rates.attention : rates.residual), branch.x);
  // dropout_add (BLOOM, Falcon): residual + out.
  return add(block, {of_attention ? "attention_residual" : "feed_forward_residual"},
             *branch.residual, dropped);
}

}  // namespace memest
