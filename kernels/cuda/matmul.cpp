#include "kernels/cuda/matmul.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "kernels/cast.hpp"
#include "kernels/cuda/matmul_plan.hpp"
#include "kernels/element.hpp"
#include "kernels/matmul.hpp"
#include "memest/diag/environment.hpp"

namespace memest::kernels {
namespace {

/// PyTorch's: enough for the kernels of Hopper and later, of which some reduce through it.
constexpr Bytes kWorkspace{32 * kMiB};
constexpr Bytes kOlderWorkspace{4 * kMiB};
constexpr std::int64_t kFp8Multiple = 16;  // of m, n and k: rows of 16 bytes

/// TF32 keeps 10 bits of an operand's mantissa; fp8 products are added in fewer bits than fp32 has.
constexpr double kNarrowTolerance = 0x1p-8;

struct Elements {
  std::int64_t left;
  std::int64_t right;
  std::int64_t result;
};

Elements elements(const MatmulShape& shape) {
  return {.left = shape.batch * shape.m * shape.k,
          .right = shape.batch * shape.k * shape.n,
          .result = shape.batch * shape.m * shape.n};
}

bool has_types(const MatmulShape& shape, ComputeCapability capability) {
  const bool to_fp32 = shape.result == DType::fp32;
  switch (shape.operand) {
    case DType::fp32:
      return to_fp32;
    case DType::bf16:
    case DType::fp16:
      return to_fp32 || shape.result == shape.operand;
    case DType::fp8:
      return capability >= kAda && (to_fp32 || is_half(shape.result)) &&
             shape.m % kFp8Multiple == 0 && shape.n % kFp8Multiple == 0 &&
             shape.k % kFp8Multiple == 0;
    case DType::fp4:
    case DType::fp64:
    case DType::int64:
    case DType::int32:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return false;
  }
  return false;
}

/// Scales do not change the product's time; their making does. One for each block is not made here.
bool has_scaling(const MatmulShape& shape) {
  if (shape.operand != DType::fp8) {
    return shape.scaling == OperandScaling::none && !shape.cast_included;
  }
  return shape.scaling == OperandScaling::fixed || shape.scaling == OperandScaling::per_tensor ||
         (shape.scaling == OperandScaling::none && !shape.cast_included);
}

Description describe(const MatmulShape& shape) {
  const auto [left, right, result] = elements(shape);
  Description description{
      .operands = {{.name = "left", .dtype = shape.operand, .elements = left},
                   {.name = "right", .dtype = shape.operand, .elements = right},
                   {.name = "result",
                    .dtype = shape.result,
                    .elements = result,
                    .access = shape.accumulates ? Access::updates : Access::writes}}};
  if (shape.cast_included) {
    description.operands[0].dtype = DType::bf16;
    description.operands.push_back(
        {.name = "cast", .dtype = shape.operand, .elements = left, .access = Access::scratch});
    description.operands.push_back({.name = "largest", .elements = 1, .access = Access::scratch});
    description.operands.push_back(
        {.name = "inverse_scale", .elements = 1, .access = Access::scratch});
  }
  return description;
}

/// To fp8 and back, but for a given scale, which the product keeps.
void cast_reference(const MatmulShape& shape, std::span<double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  const bool fits = shape.scaling == OperandScaling::per_tensor;
  const float scale = fits ? fp8_scale(static_cast<float>(largest)) : kFp8Scale;
  for (double& value : values) {
    const float cast = to_float(to_fp8(scale * static_cast<float>(value)));
    value = fits ? cast * (1 / scale) : cast;
  }
}

void run_reference(const MatmulShape& shape, double* const* operands) {
  const auto [left, right, result] = elements(shape);
  const std::span<double> left_values(operands[0], static_cast<std::size_t>(left));
  if (shape.cast_included) cast_reference(shape, left_values);
  matmul_reference(shape, {.left = left_values,
                           .right = {operands[1], static_cast<std::size_t>(right)},
                           .result = {operands[2], static_cast<std::size_t>(result)}});
}

/// The cast of the left operand into the scratch behind the others, then the product of that.
void enqueue_with_cast(const MatmulShape& shape, const MatmulPlan& plan, int rank,
                       void* const* operands, Stream stream) {
  const std::array<void*, 4> cast = {operands[0], operands[3], operands[4], operands[5]};
  const Call call{.dtype = DType::fp8,
                  .rows = 1,
                  .columns = elements(shape).left,
                  .operands = cast.data(),
                  .stream = stream};
  const bool fits = shape.scaling == OperandScaling::per_tensor;
  fits ? launch_fitting_cast(call) : launch_cast(call);
  // B_SCALE_POINTER: the library multiplies its second operand by the inverse scale.
  if (fits) plan.scale_left_by(operands[5]);
  const std::array<void*, 3> product = {operands[3], operands[1], operands[2]};
  plan.enqueue(rank, product.data(), stream);
}

}  // namespace

CublasLt::CublasLt(ComputeCapability capability)
    : capability_(capability), workspace_(capability >= kHopper ? kWorkspace : kOlderWorkspace) {
  check(cublasLtCreate(&handle_));
}

bool can_multiply(const CublasLt& library, const MatmulShape& shape) {
  if (std::min({shape.batch, shape.m, shape.n, shape.k}) <= 0) return false;
  if (shape.tensor_float && shape.operand != DType::fp32) return false;
  return has_types(shape, library.capability()) && has_scaling(shape) &&
         matmul_ranks(library, shape) > 0;
}

int matmul_ranks(const CublasLt& library, const MatmulShape& shape) {
  return static_cast<int>(MatmulPlan(library, shape).ranked.size());
}

namespace {

/// A product may be off by so much beyond the rounding of its result.
double least_tolerance(const MatmulShape& shape) {
  const bool is_narrow = shape.tensor_float || shape.operand == DType::fp8;
  // A product that is added to a 16-bit result is rounded to it before the sum is.
  const double roundings = shape.accumulates && is_half(shape.result) ? 2 : 1;
  return std::max(is_narrow ? kNarrowTolerance : 0, roundings * tolerance(shape.result));
}

}  // namespace

Workload matmul_workload(const CublasLt& library, const MatmulShape& shape, int rank) {
  const auto plan = std::make_shared<const MatmulPlan>(library, shape);
  if (static_cast<std::size_t>(rank) >= plan->ranked.size()) {
    throw EnvironmentError("cuBLASLt has no kernel for a matrix product of this shape");
  }
  return {.description = describe(shape),
          .enqueue =
              [=](void* const* operands, Stream stream) {
                if (shape.cast_included) {
                  enqueue_with_cast(shape, *plan, rank, operands, stream);
                } else {
                  plan->enqueue(rank, operands, stream);
                }
              },
          .reference = [=](double* const* operands) { run_reference(shape, operands); },
          .least_tolerance = least_tolerance(shape)};
}

}  // namespace memest::kernels
