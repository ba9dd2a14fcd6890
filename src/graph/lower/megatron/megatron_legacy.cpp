// Megatron-LM's own kernels of 2021 and 2022 (megatron/fused_kernels and megatron/model/fused_*.py
// of its v2 and v3.0): the causal softmax in CUDA, bias and gelu, and bias, dropout and sum, which
// TorchScript's fuser compiles to a kernel each way.
#include <optional>
#include <string>
#include <utility>

#include "graph/lower/megatron/megatron.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

/// FusedScaleMaskSoftmax.is_kernel_available: 16 < s <= 4096, a multiple of 4, and heads of all
/// sequences in whole blocks of 128 threads (get_batch_per_block: a warp takes 2 rows of up to 128
/// keys, one of more).
bool is_kernel_available(const MegatronContext& context, DType dtype) {
  constexpr std::int64_t kLeast = 16;
  constexpr std::int64_t kMost = 4096;
  constexpr std::int64_t kShortRow = 128;
  constexpr std::int64_t kRows = 4;
  const std::int64_t keys = context.policy.seq_len;
  const std::int64_t heads =
      checked_multiply(context.policy.micro_batch, context.attention.heads / context.policy.tensor);
  const std::int64_t block = keys <= kShortRow ? 2 * kRows : kRows;
  return context.policy.implementation.masked_softmax_fusion && size_of(dtype) == 2 &&
         keys > kLeast && keys <= kMost && keys % kRows == 0 && heads % block == 0;
}

/// ScaledUpperTriangMaskedSoftmax: keeps its result; the gradient takes the place of the result's.
TensorId fused_softmax(BlockBuilder& block, TensorId scores) {
  const Expr bytes = block.tensor(scores).bytes();
  const TensorId out = block.make({"softmax"}, block.tensor(scores).shape, block.dtype_of(scores));
  Op op;
  // A warp has a row in its registers: both passes go over it once, as a kernel that scales does,
  // where those of softmaxes and norms go twice or sum over rows.
  op.kind = OpKind::scale;
  op.name = "softmax";
  op.inputs = {scores};
  op.outputs = {out};
  op.saved = {out};
  BackwardWriter(op).hand_on(scores);
  // scaled_upper_triang_masked_softmax.h: a row is read up to its diagonal, and written whole.
  op.backward.bytes = Expr(2) * bytes;
  block.emit(std::move(op));
  block.ops().back().forward.bytes = bytes + bytes / Expr(2);
  return out;
}

/// masked_fill_ of a tensor that is nobody's view: in place.
TensorId filled(BlockBuilder& block, const MegatronContext& context, TensorId scores) {
  const TensorId mask =
      block.shared("attention mask", {Expr(1), Expr(1), context.s, context.s}, DType::boolean);
  const TensorId out = block.alias({"mask", "filled"}, scores, block.tensor(scores).shape);
  Op op;
  op.kind = OpKind::mask;
  op.name = "mask";
  op.inputs = {scores, mask};
  op.outputs = {out};
  op.saved = {mask};
  BackwardWriter backward(op);
  backward.give(scores, backward.make(scores, block.dtype_of(scores)));
  block.emit(std::move(op));
  return out;
}

/// A result of one kernel each way and its mask of dropout, of one byte an element, which is kept.
struct Dropped {
  TensorId mask = 0;
  TensorId out = 0;
};

Dropped made_dropped(BlockBuilder& block, std::string_view name, TensorId like) {
  const Shape shape = block.tensor(like).shape;
  const TensorId mask = block.make({name, "mask"}, shape, DType::boolean);
  return {mask, block.make({name}, shape, block.dtype_of(like))};
}

}  // namespace

bool is_fused_gelu(ActivationFunction function, const LoweringPolicy& policy) {
  const bool legacy = policy.implementation.layers == LayerSpec::legacy;
  return function == ActivationFunction::gelu ||
         (legacy && function == ActivationFunction::gelu_bloom);
}

std::optional<Unavailable> legacy_refusal(const DecoderSpec& decoder,
                                          const LoweringPolicy& policy) {
  if (policy.implementation.layers != LayerSpec::legacy) return std::nullopt;
  const auto refuse = [](const char* what) {
    return Unavailable{std::string("Megatron's legacy layers with ") + what +
                       " are not available yet"};
  };
  if (decoder.experts() != nullptr) return refuse("experts");
  const SoftmaxAttention attention = heads_of(decoder.attention);
  if (attention.kv_heads != attention.heads) return refuse("heads in groups");
  if (attention.qk_norm != QkNorm::none) return refuse("norms of queries and keys");
  if (std::holds_alternative<RotaryPosition>(decoder.position)) return refuse("rotary positions");
  if (decoder.norm.kind == NormKind::rmsnorm) return refuse("RMS norms");
  if (std::get<DenseFeedForward>(decoder.kinds.front().feed_forward).gated) {
    return refuse("gated feed-forwards");
  }
  return std::nullopt;
}

TensorId legacy_softmax(BlockBuilder& block, const MegatronContext& context, TensorId scores) {
  const DType dtype = block.dtype_of(scores);
  if (is_kernel_available(context, dtype)) return fused_softmax(block, scores);
  // forward_torch_softmax: apply_query_key_layer_scaling, the default then, wants the softmax in
  // fp32 and multiplies the scores by the layer's number.
  Frame call(block);
  TensorId wide = scores;
  if (dtype != DType::fp32) {
    wide = cast(block, {"softmax", "scores in fp32"}, scores, DType::fp32);
  }
  wide = call.local(scale(block, {"softmax", "scaled scores"}, wide));
  const TensorId probabilities =
      softmax(block, "softmax", filled(block, context, wide), DType::fp32);
  call.local(probabilities);
  if (dtype == DType::fp32) return probabilities;
  return cast(block, {"softmax", "in 16 bits"}, probabilities, dtype);
}

TensorId fused_bias_dropout_add(BlockBuilder& block, const LegacySum& sum) {
  const DType dtype = block.dtype_of(sum.x);
  const Dropped made = made_dropped(block, sum.name, sum.x);
  Op op;
  op.kind = OpKind::add;
  op.name = sum.name;
  op.inputs = {sum.x, sum.bias, sum.residual};
  op.outputs = {made.mask, made.out};
  op.saved = {made.mask};
  BackwardWriter backward(op);
  backward.hand_on(sum.residual);
  const auto of_x = backward.make(sum.x, dtype);
  backward.leave_node();
  // _grad_sum_to_size stands behind the fused kernel.
  backward.give(sum.bias, backward.make(sum.bias, dtype));
  backward.launch(sum_between(block.tensor(sum.x).shape, block.tensor(sum.bias).shape, dtype));
  backward.give(sum.x, of_x);
  block.emit(std::move(op));
  return made.out;
}

}  // namespace memest
