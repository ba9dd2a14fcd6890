#include "time/laws/unaligned_rows.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// 16-bit products on an H200, by the bytes at whose multiples rows begin: cuBLAS 13.1 runs them by
/// Turing's tensor core instructions (cutlass_75_tensorop_bf16_s1688gemm_bf16). Times inside
/// training steps, over the datasheet's peak (docs/calibration.md).
struct UnalignedRow {
  ComputeCapability capability;
  std::int64_t bytes;
  double forward;
  double data_gradient;
  double weight_gradient;
};
constexpr std::array kUnalignedRows = {UnalignedRow{kHopper, 2, 0.10, 0.14, 0.147},
                                       UnalignedRow{kHopper, 4, 0.24, 0.24, 0.21}};

double share_of(const UnalignedRow& row, MatmulPass pass) {
  if (pass == MatmulPass::data_gradient) return row.data_gradient;
  return pass == MatmulPass::weight_gradient ? row.weight_gradient : row.forward;
}

}  // namespace

std::optional<double> share_of_unaligned(const MatmulShape& shape,
                                         std::optional<ComputeCapability> capability) {
  if (!is_half(shape.operand)) return std::nullopt;
  const std::int64_t bytes = row_alignment(shape);
  const auto* const row =
      std::find_if(kUnalignedRows.begin(), kUnalignedRows.end(), [&](const UnalignedRow& other) {
        return other.capability == capability && other.bytes == bytes;
      });
  if (row == kUnalignedRows.end()) return std::nullopt;
  return share_of(*row, shape.pass);
}

}  // namespace memest
