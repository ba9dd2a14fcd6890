// The kernel that scaled_dot_product_attention takes.
#include <algorithm>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/flash_attn/flash_attn.hpp"
#include "memest/spec/releases/torch_release.hpp"

namespace memest {
namespace {

/// Whether cuDNN's attention comes first and takes such heads. check_prefer_cudnn_attention: on 9.x
/// and 10.x with cuDNN newer than 9.15.0; check_cudnn_tensor_shapes has the limits.
bool takes_cudnn(const AttentionCall& call, std::int64_t head_dim, const LoweringPolicy& policy) {
  constexpr std::int64_t kWide = 256;
  constexpr std::int64_t kNarrow = 128;
  const bool hopper = policy.capability.major == kHopper.major;
  if (!hopper && policy.capability.major != kBlackwell.major) return false;
  const CudnnHeads heads = row_of(policy.implementation.torch).cudnn;
  if (heads == CudnnHeads::none) return false;
  const std::int64_t value_dim = call.value_dim.value_or(head_dim);
  if (head_dim % 8 != 0 || value_dim % 8 != 0) return false;
  const std::int64_t widest = std::max(head_dim, value_dim);
  const bool by_hardware = heads == CudnnHeads::by_hardware;
  const bool up_to_wide = by_hardware ? hopper : !call.gradients;
  if (widest <= (up_to_wide ? kWide : kNarrow)) return true;
  if (!by_hardware && head_dim == kWide && value_dim == kWide) return true;
  return head_dim == 192 && value_dim == kNarrow;  // DeepSeek's
}

bool drops_out(const AttentionCall& call) { return call.gradients && call.dropout > 0; }

/// Flash before the memory-efficient kernel before math, as far as each takes the operands.
AttentionKernel flash_first(const AttentionCall& call, std::int64_t head_dim,
                            const LoweringPolicy& policy) {
  const ComputeCapability capability = policy.capability;
  const TorchRow& torch = row_of(policy.implementation.torch);
  const std::int64_t value_dim = call.value_dim.value_or(head_dim);
  // The memory-efficient kernel reads 16 bytes at a time.
  // minimum_gemm_alignment: 8 elements of 16 bits, 4 of fp32.
  const std::int64_t aligned = 16 / size_of(call.dtype);
  const bool efficient = (!call.grouped || torch.efficient_takes_groups) &&
                         head_dim % aligned == 0 && value_dim % aligned == 0;
  const AttentionKernel fallback =
      efficient ? AttentionKernel::sdpa_efficient : AttentionKernel::sdpa_math;
  constexpr std::int64_t kWidestFlash = 256;
  if (!is_half(call.dtype)) return fallback;
  // check_dtypes_low_precision: bfloat16 needs sm80 in both fused kernels.
  if (capability < kAmpere) {
    return call.dtype == DType::bf16 ? AttentionKernel::sdpa_math : fallback;
  }
  // Flash attention's backward of wide heads needs more shared memory than small chips have.
  // check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120: (192, 224] never trains
  // there, (224, 256] without dropout only.
  constexpr std::int64_t kLastOfSmallShared = 192;
  constexpr std::int64_t kFirstWithoutDropout = 225;
  const bool fits = !call.gradients || has_large_shared_memory(capability) ||
                    head_dim <= kLastOfSmallShared ||
                    (head_dim >= kFirstWithoutDropout && call.dropout <= 0);
  if (!call.masked && !call.value_dim && head_dim <= kWidestFlash && fits) {
    return AttentionKernel::sdpa_flash;
  }
  return fallback;
}

/// cuDNN's kernel of 16-bit types trains such heads, whatever its place in the order is.
bool cudnn_trains(const AttentionCall& call, std::int64_t head_dim) {
  constexpr std::int64_t kWidestOfCudnn = 128;
  return is_half(call.dtype) && head_dim <= kWidestOfCudnn && head_dim % 8 == 0;
}

}  // namespace

bool has_large_shared_memory(ComputeCapability capability) {
  return capability == kAmpere || capability == kHopper || capability == kBlackwell;
}

AttentionKernel resolve_sdpa(const AttentionCall& call, std::int64_t head_dim,
                             const LoweringPolicy& policy) {
  const TorchRow& torch = row_of(policy.implementation.torch);
  const bool cudnn = is_half(call.dtype) && takes_cudnn(call, head_dim, policy) &&
                     (torch.cudnn_drops_out || !drops_out(call));
  return cudnn ? AttentionKernel::sdpa_cudnn : flash_first(call, head_dim, policy);
}

AttentionKernel resolve_in_torchtitan(const AttentionCall& call, std::int64_t head_dim,
                                      const LoweringPolicy& policy) {
  // sdpa_kernel(backends, set_priority=True) enables cuDNN, flash and math alone.
  const AttentionKernel usual = resolve_sdpa(call, head_dim, policy);
  if (usual == AttentionKernel::sdpa_efficient) return AttentionKernel::sdpa_math;
  const bool cudnn = usual == AttentionKernel::sdpa_flash && cudnn_trains(call, head_dim);
  return cudnn ? AttentionKernel::sdpa_cudnn : usual;
}

AttentionKernel resolve_in_early_torchtitan(const AttentionCall& call, std::int64_t head_dim,
                                            const LoweringPolicy& policy) {
  const bool cudnn = policy.capability >= kBlackwell && cudnn_trains(call, head_dim);
  return cudnn ? AttentionKernel::sdpa_cudnn : flash_first(call, head_dim, policy);
}

std::optional<Unavailable> kernel_refusal(const DecoderContext& context, const LayerKind& kind) {
  const AttentionCall call = attention_call(context, kind);
  const auto refuses = [](bool condition, const char* sentence) {
    return condition ? std::optional<Unavailable>(Unavailable{sentence}) : std::nullopt;
  };
  constexpr std::int64_t kWidestFlash = 256;
  const std::int64_t head_dim = context.attention.head_dim;
  switch (call.kernel) {
    case AttentionKernel::sdpa_flash:
      if (!is_half(call.dtype)) return refuses(true, "flash attention takes 16-bit types only");
      if (head_dim > kWidestFlash) {
        return refuses(true, "flash attention takes heads of 256 channels at most");
      }
      if (call.value_dim) {
        return refuses(true, "flash attention takes values as wide as keys (PyTorch 2.11)");
      }
      if ((call.grouped || call.dropout > 0) && context.policy.unpacks_by_rows()) {
        return refuses(true,
                       "saved tensors in page-locked memory are not followed through flash "
                       "attention with grouped heads or dropout; leave 'pin_memory' out");
      }
      return refuses(call.masked, "flash attention takes no mask, and this model passes one");
    case AttentionKernel::sdpa_efficient:
      if (call.masked && context.policy.saves_on_cpu) {
        return refuses(true,
                       "saved tensors on the host are not followed through the memory-efficient "
                       "kernel with a mask, which it sees expanded over the heads");
      }
      return refuses(call.grouped || call.broadcast,
                     "the memory-efficient kernel takes no grouped heads (PyTorch 2.11)");
    case AttentionKernel::sdpa_cudnn:
      return refuses(!is_half(call.dtype) || call.broadcast,
                     "cuDNN attention takes 16-bit types and no broadcast heads");
    case AttentionKernel::sdpa_math:
    case AttentionKernel::eager:
      return refuses(context.policy.unpacks_by_rows(),
                     "saved tensors in page-locked memory are not followed through attention that "
                     "is written out as products; leave 'pin_memory' out, or use a fused kernel");
    case AttentionKernel::sdpa:
    case AttentionKernel::textbook:
      return std::nullopt;
    case AttentionKernel::unfused:
      return refuses(true, "unfused attention is that of the implementation megatron");
    case AttentionKernel::flash_2:
      return package_refusal(context, call);
    case AttentionKernel::te:
      return refuses(true, "Transformer Engine's attention is that of the implementation megatron");
  }
  return std::nullopt;
}

}  // namespace memest
