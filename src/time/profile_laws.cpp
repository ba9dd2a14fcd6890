#include "profile_laws.hpp"

#include <array>
#include <string_view>
#include <variant>

#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// Names that samples give kernels, those first that PyTorch's own attention comes nearest to:
/// cuDNN and FlashAttention 3 on Hopper, FlashAttention 2 elsewhere. A training loop's own samples
/// name none.
constexpr std::array<std::string_view, 9> kKernels = {"",
                                                      "cudnn",
                                                      "fa3",
                                                      "vllm_flash_attn_fa3",
                                                      "vllm_flash_attn",
                                                      "vllm_flash_attn_fa2",
                                                      "flash_attention",
                                                      "flashinfer",
                                                      "torch_flow"};

/// FLOP/s of attention's backward over its forward's: 0.76 to 0.87 of cuDNN's, 0.85 inside a
/// training loop (docs/calibration.md).
constexpr double kBackwardOverForward = 0.85;

/// The tensor cores run both 16-bit types alike, and samples are of one.
DType sampled_type(DType type) { return type == DType::fp16 ? DType::bf16 : type; }

const MatmulFit* find_matmul(const GpuProfile& profile, MatmulShape shape) {
  shape.operand = sampled_type(shape.operand);
  return find_fit(profile.matmuls, shape);
}

/// Of the kernel nearest to what PyTorch runs; null where the profile has none for such calls.
const AttentionFit* find_attention(const GpuProfile& profile, AttentionShape shape) {
  for (const std::string_view kernel : kKernels) {
    shape.kernel = kernel;
    if (const AttentionFit* fit = find_fit(profile.attentions, shape)) return fit;
  }
  return nullptr;
}

}  // namespace

bool ProfileLaws::know(const GpuSpec& gpu, DType operand) {
  return gpu.profile != nullptr && machine_of(gpu, operand) &&
         find_matmul(*gpu.profile, {.operand = operand}) != nullptr;
}

std::optional<double> ProfileLaws::seconds(const MatmulShape& shape) const {
  const auto machine = machine_of(*gpu_, shape.operand);
  const MatmulFit* fit = find_matmul(*gpu_->profile, shape);
  if (fit == nullptr || !machine) return std::nullopt;
  return seconds_of(fit->law, shape, *machine, Load::sustained);
}

std::optional<double> ProfileLaws::seconds(const AttentionShape& shape) const {
  AttentionShape known = shape;
  known.dtype = sampled_type(known.dtype);
  const auto machine = machine_of(*gpu_, shape.dtype);
  if (!machine) return std::nullopt;
  if (const AttentionFit* fit = find_attention(*gpu_->profile, known)) {
    return seconds_of(fit->law, shape, *machine);
  }
  if (shape.pass == KernelPass::forward) return std::nullopt;
  known.pass = KernelPass::forward;
  const AttentionFit* forward = find_attention(*gpu_->profile, known);
  if (forward == nullptr) return std::nullopt;
  const double more = flops_of(shape) / flops_of(known) / kBackwardOverForward;
  return seconds_of(forward->law, known, *machine) * more;
}

Provenance ProfileLaws::provenance() const {
  const GpuProfile& profile = *gpu_->profile;
  return profile.matmuls.empty() ? profile.attentions.front().provenance
                                 : profile.matmuls.front().provenance;
}

std::optional<double> ProfileLaws::seconds(const std::vector<KernelShape>& calls) const {
  if (gpu_ == nullptr || gpu_->profile == nullptr || calls.empty()) return std::nullopt;
  double total = 0;
  for (const KernelShape& call : calls) {
    const auto one = std::visit([this](const auto& shape) { return seconds(shape); }, call);
    if (!one) return std::nullopt;
    total += *one;
  }
  return total / share_;
}

}  // namespace memest
