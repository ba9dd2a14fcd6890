// The masks that scaled dot product attention is given, and the test that spares it one.
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/positions.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// The mask as wide as it is: each layer makes its own from a boolean one and two numbers; ALiBi's
/// is ready unless it must be cast.
TensorId typed_mask(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call) {
  const Dimensions& dims = context.dims;
  const Shape shape = {dims.b, call.mask_by_head ? dims.a : Expr(1), dims.s, dims.keys};
  // Falcon's mask of biases is a model's local that layers share; autocast casts it anew for each
  // (scaled_dot_product_attention is on its lower-precision list, autocast_mode.h).
  if (call.mask_by_head) {
    const TensorId ready = block.shared("alibi mask", shape, context.policy.weights);
    return cast(block, {"attention_mask"}, ready, call.dtype);
  }
  if (context.compiles_whole()) return block.shared(call.mask, shape, call.dtype);
  // convert_boolean_attn_mask (native/transformers/attention.cpp): at::where(mask, 0, -inf) in the
  // query's type. A layer of b 4, s 4096 makes 4·4096²·2 B = 134 MB, and attention keeps it.
  const auto number = [&](std::string_view name) {
    return compute(block, OpKind::copy, {}, {{"attention_mask", name}, {Expr(1)}, call.dtype});
  };
  const TensorId zero = number("zero");
  const TensorId lowest = number("lowest value");
  std::vector<TensorId> inputs = {zero, lowest};
  if (context.program.passes_masks)
    inputs.push_back(block.shared(call.mask, shape, DType::boolean));
  return compute(block, OpKind::mask, inputs, {{"attention_mask"}, shape, call.dtype});
}

}  // namespace

// transformers, masking_utils.py: flash_attention_mask asks attention_mask.all(), which
// _ignore_causal_mask_sdpa's fast_all counts.
void find_padding(BlockBuilder& block, const DecoderContext& context, TensorId wanted) {
  constexpr std::string_view kName = "padding";
  if (context.policy.implementation.attention == AttentionKernel::flash_2) {
    compute(block, OpKind::reduce, {wanted}, {{kName, "none"}, {Expr(1)}, DType::boolean});
    return;
  }
  // The sum reads the booleans through a copy.
  Op op;
  op.kind = OpKind::reduce;
  op.name = kName;
  op.inputs = {wanted};
  const TensorId count = block.make({kName, "count"}, {Expr(1)}, DType::int64);
  op.outputs = {count,
                block.make({kName, "wanted as numbers"}, block.tensor(wanted).shape, DType::int64)};
  block.emit(std::move(op));
  compute(block, OpKind::mask, {count}, {{kName, "none"}, {Expr(1)}, DType::boolean});
}

std::optional<TensorId> ready_mask(BlockBuilder& block, const DecoderContext& context,
                                   const AttentionCall& call) {
  if (!call.masked || !call.mask_by_head) return std::nullopt;
  return typed_mask(block, context, call);
}

TensorId mask_tensor(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                     std::optional<TensorId> ready) {
  // preprocess_mask (attention.cpp): mem_eff_alignment is 8; pad_bias copies the mask to the next
  // multiple and slices. 4095 columns become 4096, 4096 none.
  constexpr std::int64_t kColumns = 8;
  const TensorId mask = ready ? *ready : typed_mask(block, context, call);
  const std::int64_t columns = context.decodes() ? call.window : context.policy.seq_len;
  const bool widens = call.kernel == AttentionKernel::sdpa_efficient && columns % kColumns != 0;
  if (!widens) return mask;
  Shape shape = block.tensor(mask).shape;
  shape.back() = context.decodes() ? Expr((columns + kColumns - 1) / kColumns * kColumns)
                                   : Expr(Symbol::seq_len_8);
  return compute(block, OpKind::copy, {mask}, {{"attention_mask", "widened"}, shape, call.dtype});
}

}  // namespace memest
