#include "time/laws/nearest_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace memest {
namespace {

/// Kernels of attention as a step asks for them, and the names that samples give them, the nearest
/// first; a training loop's own samples name none. PyTorch's choice is cuDNN on Hopper, and
/// FlashAttention 2 elsewhere; its flash kernel is FlashAttention 2 everywhere.
constexpr std::array<std::string_view, 9> kAnyKernel = {"",
                                                        "cudnn",
                                                        "fa3",
                                                        "vllm_flash_attn_fa3",
                                                        "vllm_flash_attn",
                                                        "vllm_flash_attn_fa2",
                                                        "flash_attention",
                                                        "flashinfer",
                                                        "torch_flow"};
constexpr std::array<std::string_view, 6> kFlash2 = {kFlashAttention2,  "",
                                                     "vllm_flash_attn", "vllm_flash_attn_fa2",
                                                     "flash_attention", "flashinfer"};

std::span<const std::string_view> kernels_for(std::string_view asked) {
  if (asked == kFlashAttention2) return kFlash2;
  return kAnyKernel;
}

/// Kin whose law an operation takes where it was not measured itself, the nearest first. Reductions
/// along a row differ between the passes; single-pass operations do not. An empty entry repeats the
/// operation.
struct StreamKin {
  StreamOp op;
  bool reduces_rows;
  std::array<StreamOp, 4> kin;
};
constexpr std::array kStreamKin = {
    StreamKin{StreamOp::softmax,
              true,
              {StreamOp::layernorm, StreamOp::rmsnorm, StreamOp::cross_entropy, StreamOp::softmax}},
    StreamKin{StreamOp::layernorm,
              true,
              {StreamOp::rmsnorm, StreamOp::softmax, StreamOp::layernorm, StreamOp::layernorm}},
    StreamKin{StreamOp::rmsnorm,
              true,
              {StreamOp::layernorm, StreamOp::softmax, StreamOp::rmsnorm, StreamOp::rmsnorm}},
    StreamKin{StreamOp::cross_entropy,
              true,
              {StreamOp::softmax, StreamOp::layernorm, StreamOp::rmsnorm, StreamOp::softmax}},
    StreamKin{
        StreamOp::copy, false, {StreamOp::scale, StreamOp::add, StreamOp::gelu, StreamOp::triad}},
    StreamKin{
        StreamOp::scale, false, {StreamOp::copy, StreamOp::add, StreamOp::gelu, StreamOp::triad}},
    StreamKin{
        StreamOp::add, false, {StreamOp::triad, StreamOp::copy, StreamOp::scale, StreamOp::gelu}},
    StreamKin{
        StreamOp::triad, false, {StreamOp::add, StreamOp::copy, StreamOp::scale, StreamOp::gelu}},
    StreamKin{StreamOp::by_element,
              false,
              {StreamOp::copy, StreamOp::scale, StreamOp::add, StreamOp::gelu}},
    StreamKin{
        StreamOp::cast, false, {StreamOp::copy, StreamOp::scale, StreamOp::add, StreamOp::gelu}},
    StreamKin{StreamOp::gelu,
              false,
              {StreamOp::silu_mul, StreamOp::scale, StreamOp::copy, StreamOp::add}},
    StreamKin{StreamOp::silu_mul,
              false,
              {StreamOp::add, StreamOp::gelu, StreamOp::copy, StreamOp::scale}},
    StreamKin{
        StreamOp::dropout, false, {StreamOp::gelu, StreamOp::scale, StreamOp::copy, StreamOp::add}},
    StreamKin{StreamOp::embedding,
              false,
              {StreamOp::copy, StreamOp::scale, StreamOp::add, StreamOp::embedding}},
    StreamKin{StreamOp::rotary,
              false,
              {StreamOp::silu_mul, StreamOp::add, StreamOp::copy, StreamOp::gelu}},
    StreamKin{
        StreamOp::adamw, false, {StreamOp::triad, StreamOp::add, StreamOp::copy, StreamOp::gelu}},
};

/// A type that stands for `dtype`: the tensor cores run both 16-bit types alike.
DType measured_type(DType dtype) { return is_half(dtype) ? DType::bf16 : dtype; }

/// The fit of the least rank, by `rank_of(kind)`; null where no kind has one.
template <class Fit, class RankOf>
const Fit* least_ranked(const std::vector<Fit>& fits, const RankOf& rank_of) {
  const Fit* best = nullptr;
  double least = 0;
  for (const Fit& fit : fits) {
    const std::optional<double> rank = rank_of(fit.kind);
    if (!rank || (best != nullptr && *rank >= least)) continue;
    best = &fit;
    least = *rank;
  }
  return best;
}

/// 0 for the operation itself, then its kin in their order.
std::optional<double> kinship(const StreamKin& row, StreamOp op) {
  if (op == row.op) return 0;
  const auto found = std::find(row.kin.begin(), row.kin.end(), op);
  if (found == row.kin.end()) return std::nullopt;
  return 1 + static_cast<double>(found - row.kin.begin());
}

}  // namespace

const MatmulFit* nearest_fit(const std::vector<MatmulFit>& fits, const MatmulShape& shape) {
  return least_ranked(fits, [&shape](const MatmulKind& kind) -> std::optional<double> {
    if (measured_type(kind.operand) != measured_type(shape.operand)) return std::nullopt;
    if (kind.tensor_float != shape.tensor_float) return std::nullopt;
    // Another scaling of an operand may stand in; another type never does.
    return kind.scaling == shape.scaling ? 0 : 1 + static_cast<double>(kind.scaling);
  });
}

const AttentionFit* nearest_fit(const std::vector<AttentionFit>& fits,
                                const AttentionShape& shape) {
  return least_ranked(fits, [&shape](const AttentionKind& kind) -> std::optional<double> {
    const std::span<const std::string_view> kernels = kernels_for(shape.kernel);
    const auto kernel = std::find(kernels.begin(), kernels.end(), kind.kernel);
    if (kernel == kernels.end()) return std::nullopt;
    const auto other_mask = static_cast<double>(kernels.size());
    const double other_pass = 2 * other_mask;
    if (measured_type(kind.dtype) != measured_type(shape.dtype)) return std::nullopt;
    // A backward may be derived from a forward (seconds_by), not the other way.
    if (shape.pass == KernelPass::forward && kind.pass != shape.pass) return std::nullopt;
    return static_cast<double>(kernel - kernels.begin()) +
           (kind.causal == shape.causal ? 0 : other_mask) +
           (kind.pass == shape.pass ? 0 : other_pass);
  });
}

const StreamFit* nearest_fit(const std::vector<StreamFit>& fits, const StreamShape& shape) {
  const auto row = std::find_if(kStreamKin.begin(), kStreamKin.end(),
                                [&shape](const StreamKin& kin) { return kin.op == shape.op; });
  if (row == kStreamKin.end()) return find_fit(fits, shape);
  return least_ranked(fits, [&](const StreamKind& kind) -> std::optional<double> {
    constexpr double kOtherPass = 0.5;
    constexpr double kOtherType = 0.25;
    const std::optional<double> rank = kinship(*row, kind.op);
    if (!rank || (row->reduces_rows && kind.pass != shape.pass)) return std::nullopt;
    return *rank + (kind.pass == shape.pass ? 0 : kOtherPass) +
           (kind.dtype == shape.dtype ? 0 : kOtherType);
  });
}

const CollectiveFit* nearest_fit(const std::vector<CollectiveFit>& fits,
                                 const CollectiveShape& shape) {
  return least_ranked(fits, [&shape](const CollectiveKind& kind) -> std::optional<double> {
    if (kind.op != shape.op) return std::nullopt;
    // The nearest count of GPUs by ratio: for 4 of {2, 8} both are as near, and the first one
    // stays.
    return std::abs(std::log(static_cast<double>(kind.gpus) / static_cast<double>(shape.gpus)));
  });
}

const TransferFit* nearest_fit(const std::vector<TransferFit>& fits, const TransferShape& shape) {
  return find_fit(fits, shape);
}

const LaunchFit* nearest_fit(const std::vector<LaunchFit>& fits, const LaunchShape& shape) {
  return find_fit(fits, shape);
}

}  // namespace memest
