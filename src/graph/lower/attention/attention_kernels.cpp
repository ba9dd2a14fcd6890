#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/fused_core.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/spec/releases/torch_release.hpp"

namespace memest {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

/// Head size in letters where `size` is the model's own, else the number.
Expr head_size(const DecoderContext& context, std::int64_t size) {
  const auto& spec = context.attention;
  return size == spec.head_dim ? context.dims.d : Expr(size);
}

/// The output and what a fused kernel keeps beside q, k, v and it, in the order in which it makes
/// them; and what it makes and does not keep.
class OutputWriter {
 public:
  OutputWriter(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call)
      : block_(block), context_(context), call_(call), spec_(context.attention) {}

  void write(TensorId out, Op& op) {
    const Dimensions& dims = context_.dims;
    const bool flash = call_.kernel == AttentionKernel::sdpa_flash;
    const bool efficient = call_.kernel == AttentionKernel::sdpa_efficient;
    const TorchRow& torch = row_of(context_.policy.implementation.torch);
    // mem_eff_attention/kernel_forward.h: kAlignLSE = 32.
    const Expr rows = efficient ? Expr(Symbol::seq_len_32) : dims.s;
    const TensorId sums = make("log-sum-exp", {dims.b, dims.a, rows}, DType::fp32);
    // should_compute_logsumexp (attention.cpp): cuDNN and efficient attention make it where a
    // gradient is wanted; flash always.
    block_.tensor(sums).for_backward = !flash;
    op.outputs = {out, sums};
    if (efficient) {
      // The kernel for heads of so many channels keeps their output in registers.
      // kNeedsOutputAccumulatorBuffer of kernel_forward.h: not kKeepOutputInRF, and an output type
      // other than the accumulator's, so not for fp32.
      constexpr std::int64_t kWidestInRegisters = 128;
      op.saved.insert(op.saved.end(), {out, sums});
      const std::int64_t widest = std::max(spec_.head_dim, call_.value_dim.value_or(0));
      if (is_half(call_.dtype) && widest > kWidestInRegisters) {
        op.outputs.push_back(make("output in fp32", block_.tensor(out).shape, DType::fp32));
      }
      if (torch.efficient_keeps_state) {
        op.outputs.insert(op.outputs.end(), {philox("seed", 1), philox("offset", 1)});
        op.saved.insert(op.saved.end(), op.outputs.end() - 2, op.outputs.end());
      }
      return;
    }
    if (flash && call_.dropout <= 0 && !torch.flash_keeps_state) {
      op.saved.insert(op.saved.end(), {out, sums});
      return append_splits(op);
    }
    // Flash keeps two words of seed, cuDNN one; both one word of offset.
    const TensorId seed = philox("seed", flash ? 2 : 1);
    const TensorId offset = philox("offset", 1);
    op.saved.insert(op.saved.end(), {out, sums, offset});
    if (!flash) {
      op.outputs.insert(op.outputs.begin(), {seed, offset});
      op.saved.push_back(seed);
      return;
    }
    if (call_.dropout <= 0) append_splits(op);
    op.outputs.insert(op.outputs.end(), {seed, offset});
    if (call_.dropout > 0) {
      // With dropout a second seed takes the place of the first.
      op.outputs.push_back(philox("dropout seed", 2));
      block_.tensor(op.outputs.back()).for_dropout = true;
    }
    op.saved.push_back(call_.dropout > 0 ? op.outputs.back() : seed);
  }

 private:
  /// A part of the Philox generator's state, of so many words.
  TensorId philox(std::string_view name, std::int64_t words) {
    return make(name, {Expr(words)}, DType::int64);
  }

  TensorId make(std::string_view name, Shape shape, DType dtype) {
    return block_.make({"attention", name}, std::move(shape), dtype);
  }

  /// Partial sums and outputs of the keys' parts.
  void append_splits(Op& op) {
    const std::int64_t splits = flash_splits(context_);
    if (splits == 1) return;
    // The forward's head_size_rounded: a multiple of 32 up to 192 channels, then 256.
    constexpr std::int64_t kWide = 192;
    constexpr std::int64_t kWidest = 256;
    const std::int64_t d = spec_.head_dim <= kWide ? rounded_up(spec_.head_dim, 32) : kWidest;
    Shape partial = block_.tensor(op.outputs.back()).shape;
    partial.insert(partial.begin(), Expr(splits));
    op.outputs.push_back(make("partial log-sum-exp", partial, DType::fp32));
    partial.push_back(head_size(context_, d));
    op.outputs.push_back(make("partial outputs", partial, DType::fp32));
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const AttentionCall& call_;
  const SoftmaxAttention& spec_;
};

/// Tile of the memory-efficient backward kernel: rows, columns, and whether it accumulates the key
/// and value gradients in its workspace as well.
struct EfficientTile {
  std::int64_t widest_head = 0;  ///< the last row of a table has no limit
  std::int64_t rows = 64;
  std::int64_t columns = 64;
  bool accumulates_kv = false;
};
using EfficientTiles = std::array<EfficientTile, 4>;
constexpr std::int64_t kAnyHead = std::numeric_limits<std::int64_t>::max();

// PyTorch 2.11's choices, found in 594 shapes on each capability.
// The names say them: kernels/cutlassB.h tries ..._64x64_k64, ..._128x128_k128 in turn, and
// _efficient_attention_backward takes the first whose kMaxK is wide enough and whose SharedStorage
// fits sharedMemPerBlockOptin.
constexpr EfficientTiles kHalfLargeShared = {
    {{64, 64, 64}, {96, 128, 128}, {128, 128, 128}, {kAnyHead, 128, 64, true}}};
constexpr EfficientTiles kHalfAda = {
    {{64, 64, 64}, {96, 128, 64}, {128, 64, 64, true}, {kAnyHead, 128, 64, true}}};
constexpr EfficientTiles kHalfOther = {
    {{64, 64, 64}, {96, 64, 64, true}, {128, 64, 64, true}, {kAnyHead, 128, 64, true}}};
constexpr EfficientTiles kFloatLargeShared = {
    {{64, 64, 64}, {96, 128, 64}, {128, 128, 64}, {kAnyHead, 128, 64}}};
constexpr EfficientTiles kFloatOther = {
    {{64, 64, 64}, {96, 64, 64}, {128, 64, 64}, {kAnyHead, 64, 64}}};

/// GeForce and A10G of the Ampere generation.
constexpr ComputeCapability kSmallAmpere{8, 6};

EfficientTile efficient_tile(const AttentionCall& call, std::int64_t head_dim,
                             ComputeCapability capability) {
  const DType dtype = call.dtype;
  const bool large = has_large_shared_memory(capability);
  // With dropout the wider tile does not fit.
  // cutlassB.h registers ..._128x64_k96 for cc 86 and 89 alone, and without dropout.
  const bool ada = (capability == kSmallAmpere || capability == kAda) && call.dropout <= 0;
  const EfficientTiles& half = large ? kHalfLargeShared : ada ? kHalfAda : kHalfOther;
  const EfficientTiles& tiles = is_half(dtype) ? half : (large ? kFloatLargeShared : kFloatOther);
  return *std::find_if(tiles.begin(), tiles.end(), [head_dim](const EfficientTile& tile) {
    return head_dim <= tile.widest_head;
  });
}

/// b·a·(⌈s/rows⌉·⌈d/columns⌉·(16 + 4·rows·columns) + A) bytes.
void efficient_backward(BlockBuilder& block, const DecoderContext& context,
                        const AttentionCall& call, BackwardWriter& backward) {
  const Dimensions& dims = context.dims;
  const LoweringPolicy& policy = context.policy;
  const auto& spec = context.attention;
  const EfficientTile tile = efficient_tile(call, spec.head_dim, policy.capability);
  const Expr row_tiles =
      Expr(tile.rows == 64 ? Symbol::seq_len_64 : Symbol::seq_len_128) / Expr(tile.rows);
  const std::int64_t column_tiles = rounded_up(spec.head_dim, tile.columns) / tile.columns;
  Expr bytes_a_head = row_tiles * Expr(column_tiles * (16 + 4 * tile.rows * tile.columns));
  if (tile.accumulates_kv) {
    const std::int64_t heads = checked_multiply(policy.micro_batch, spec.heads);
    const std::int64_t splits =
        // num_splits_key is held to 200 / (batches·heads), so that accumulators stay few: 32 heads
        // split in 6, more than 100 in one.
        std::min(rounded_up(policy.seq_len, 64) / 64, std::max<std::int64_t>(1, 200 / heads));
    const std::int64_t value_dim = call.value_dim.value_or(spec.head_dim);
    const std::int64_t columns =
        rounded_up(spec.head_dim, tile.rows) + rounded_up(value_dim, tile.rows);
    bytes_a_head += Expr(splits * 64 * columns * 4);
  }
  const TensorId sums =
      scratch(block, {"attention", "row sums"}, {dims.b, dims.a, dims.s}, DType::fp32);
  const TensorId accumulators =
      scratch(block, {"attention", "accumulators"}, {dims.b, dims.a, bytes_a_head}, DType::uint8);
  BackwardWriter::Made delta = 0;
  // Kernel::kKernelComputesDelta needs a 16-bit type. Else delta is (grad_out.to(kFloat) *
  // out.to(kFloat)).sum(-1).transpose(-2, -1).contiguous(), whose casts are the tensors themselves.
  if (is_half(call.dtype)) {
    delta = backward.make(sums, DType::fp32);
  } else {
    // fp32 sums gradient · output in two kernels.
    const TensorId product = scratch(block, {"attention", "gradient times output"},
                                     {dims.b, dims.s, dims.a, dims.value}, DType::fp32);
    const auto products = backward.make(product, DType::fp32);
    const auto by_token = backward.make(sums, DType::fp32);
    delta = by_token;
    if (spec.heads > 1) {
      delta = backward.make(sums, DType::fp32);
      backward.drop(by_token);
    }
    backward.drop(products);
  }
  const auto workspace = backward.make(accumulators, DType::uint8);
  backward.drop(delta);
  backward.drop(workspace);
}

FusedCore core_of(const DecoderContext& context, const AttentionCall& call) {
  return {context.dims, context.attention.head_dim, call.dtype, call.grouped};
}

void write_backward(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
                    Op& op) {
  BackwardWriter backward(op);
  // Flash attention reads its output by tokens.
  const bool several = context.attention.heads > 1;
  // _flash_attention_backward: out.contiguous(), where out is seen as [b, s, a, d]; it lies as
  // the queries do (empty_like).
  const bool copies = call.packed && several && call.kernel == AttentionKernel::sdpa_flash;
  const auto by_tokens = copies ? backward.make(op.inputs.front(), call.dtype) : 0;
  std::array<BackwardWriter::Made, 3> gradients{};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = backward.make(op.inputs[i], call.dtype);
  }
  switch (call.kernel) {
    case AttentionKernel::sdpa_flash:
      flash_backward(block, core_of(context, call), backward);
      break;
    case AttentionKernel::sdpa_efficient:
      efficient_backward(block, context, call, backward);
      break;
    case AttentionKernel::sdpa_cudnn:
      cudnn_backward(block, core_of(context, call), backward);
      break;
    case AttentionKernel::sdpa:
    case AttentionKernel::sdpa_math:
    case AttentionKernel::eager:
    case AttentionKernel::unfused:
    case AttentionKernel::flash_2:
    case AttentionKernel::te:
    case AttentionKernel::textbook:
      break;
  }
  if (copies) backward.drop(static_cast<BackwardWriter::Made>(by_tokens));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    backward.give(op.inputs[i], gradients[i], Reach::through_view);
  }
}

/// Operands and output that lie by tokens, and so transposed: one head lies so in either order, and
/// so does one token.
std::vector<TensorId> transposed_operands(const DecoderContext& context, const AttentionCall& call,
                                          const AttentionInputs& inputs, TensorId out) {
  std::vector<TensorId> transposed;
  const auto add = [&](TensorId id, bool by_tokens, std::int64_t heads) {
    if (by_tokens && heads > 1 && context.policy.seq_len > 1) transposed.push_back(id);
  };
  const SoftmaxAttention& spec = context.attention;
  add(inputs.q.id, !inputs.q.packed, spec.heads);
  add(inputs.k.id, !inputs.k.packed, spec.kv_heads);
  add(inputs.v.id, !inputs.v.packed, spec.kv_heads);
  add(out, !call.packed || call.kernel == AttentionKernel::sdpa_efficient, spec.heads);
  return transposed;
}

/// Flash attention takes head sizes that are multiples of 8; others are padded: copies.
/// pad_last_dim<8> (attention.cpp). 100 channels become 104 in all three operands and in the
/// output, which is sliced.
Heads padded(BlockBuilder& block, const DecoderContext& context, std::string_view name, Heads x) {
  const std::int64_t d = context.attention.head_dim;
  if (d % 8 == 0) return x;
  Shape shape = block.tensor(x.id).shape;
  shape.back() = Expr(rounded_up(d, 8));
  const TensorId out = block.make({name, "padded"}, std::move(shape), block.dtype_of(x.id));
  Op op;
  op.kind = OpKind::copy;
  op.name = name;
  op.inputs = {x.id};
  op.outputs = {out};
  BackwardWriter(op).hand_on(x.id, Reach::through_view);
  block.emit(std::move(op));
  return {out, x.packed};
}

}  // namespace

TensorId fused_attention(BlockBuilder& block, const DecoderContext& context, AttentionCall call,
                         AttentionInputs inputs) {
  const Dimensions& dims = context.dims;
  Frame frame(block);
  if (call.masked) {
    inputs.k = repeat_heads(block, context, "k_repeat", inputs.k);
    inputs.v = repeat_heads(block, context, "v_repeat", inputs.v);
    for (const Heads& local : {inputs.k, inputs.v}) frame.local(local.id);
  }
  const std::optional<TensorId> ready = ready_mask(block, context, call);
  if (ready) frame.local(*ready);
  const bool flash = call.kernel == AttentionKernel::sdpa_flash;
  const auto prepare = [&](std::string_view name, Heads x) {
    const Heads typed = cast_heads(block, context, name, x);
    return flash ? padded(block, context, name, typed) : typed;
  };
  inputs.v = prepare("v_operand", inputs.v);
  inputs.k = prepare("k_operand", inputs.k);
  inputs.q = prepare("q_operand", inputs.q);
  call.packed = inputs.q.packed;

  Op op;
  op.kind = OpKind::attention;
  op.name = "attention";
  op.compute = call.dtype;
  op.part_of.attention_core = true;
  op.causal = true;
  op.flash_2 = flash;  // PyTorch's own flash kernel
  op.inputs = {inputs.q.id, inputs.k.id, inputs.v.id};
  Shape shape = block.tensor(inputs.q.id).shape;
  shape.back() = block.tensor(inputs.v.id).shape.back();
  const TensorId out = block.make({"attention"}, std::move(shape), call.dtype);
  op.saved = op.inputs;
  if (call.masked) {
    op.inputs.push_back(mask_tensor(block, context, call, ready));
    op.saved.push_back(op.inputs.back());
  }
  OutputWriter(block, context, call).write(out, op);
  op.transposed = transposed_operands(context, call, inputs, out);
  write_backward(block, context, call, op);
  // Backward: the scores again, then gradients of values, scores, queries and keys.
  const Expr scores = score_flops(dims) / dims.d * block.tensor(inputs.q.id).shape.back();
  const Expr values = value_flops(dims) / dims.value * block.tensor(inputs.v.id).shape.back();
  block.emit(std::move(op), {scores + values, Expr(3) * scores + Expr(2) * values});

  // The output lies as the queries do; efficient attention always writes [b, s, a, d].
  const Shape joined = {dims.b, dims.s, dims.a * dims.value};
  const bool sliced = flash && context.attention.head_dim % 8 != 0;
  // transpose(1, 2).contiguous() of the caller: free where the output lies by tokens.
  // One token's heads lie so in either order.
  const bool by_head = inputs.q.packed && call.kernel != AttentionKernel::sdpa_efficient &&
                       context.attention.heads > 1 && !context.decodes();
  if (sliced || by_head) {
    return copy(block, {"join_heads"}, out, joined);
  }
  return view(block, {"attention", "joined"}, out, joined);
}

}  // namespace memest
