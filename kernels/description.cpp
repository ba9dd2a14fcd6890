#include "kernels/description.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/loops.hpp"
#include "memest/diag/expect.hpp"

namespace memest::kernels {
namespace {

std::int64_t passes(Access access) {
  switch (access) {
    case Access::reads:
    case Access::writes:
      return 1;
    case Access::updates:
      return 2;
    case Access::scratch:
      return 0;
  }
  return 0;
}

std::vector<StreamKernel> all_kernels() {
  std::vector<StreamKernel> all;
  for (const auto kernels :
       {array_kernels(), cast_kernels(), gelu_kernels(), silu_mul_kernels(), dropout_kernels(),
        softmax_kernels(), layernorm_kernels(), rmsnorm_kernels(), cross_entropy_kernels(),
        embedding_kernels(), rotary_kernels(), adamw_kernels()}) {
    all.insert(all.end(), kernels.begin(), kernels.end());
  }
  return all;
}

double root_mean_square(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

}  // namespace

Bytes traffic(const Description& description) {
  Bytes sum{0};
  for (const Operand& operand : description.operands) {
    // An embedding touches the rows of its tokens, not its whole table.
    const std::int64_t touched = operand.touched < 0 ? operand.elements : operand.touched;
    sum += Bytes(touched) * size_of(operand.dtype) * passes(operand.access);
  }
  return sum;
}

double tolerance(DType result) {
  switch (result) {
    case DType::fp8:
      return 0x1p-4;  // e4m3: 3 bits behind the point
    case DType::bf16:
      return 0x1.1p-8;  // 7 bits, and the fp32 arithmetic before the rounding
    case DType::fp16:
      return 0x1.1p-11;  // 10 bits, likewise
    case DType::fp32:
      return 3e-5;  // sums of ten thousands of terms, exponentials to 2^-21
    case DType::fp64:
      return 1e-12;
    case DType::fp4:
      unreachable("no kernel of memest's own makes fp4");
    case DType::int64:
    case DType::int32:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 0;
  }
  return 0;
}

double largest_error(std::span<const double> result, std::span<const double> reference) {
  expect(result.size() == reference.size(), "a result has as many elements as its reference");
  const double scale = root_mean_square(reference);
  double largest = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double difference = std::abs(result[i] - reference[i]);
    // std::max would drop a NaN, and the result would pass.
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    if (difference > 0) {
      // Relative to the element or to the mean square of all, whichever is larger: sums that cancel
      // to nearly 0 have no relative error.
      largest = std::max(largest, difference / std::max(std::abs(reference[i]), scale));
    }
  }
  return largest;
}

double mean_error(std::span<const double> result, std::span<const double> reference) {
  expect(result.size() == reference.size(), "a result has as many elements as its reference");
  std::vector<double> differences(result.begin(), result.end());
  for (std::size_t i = 0; i < result.size(); ++i) differences[i] -= reference[i];
  const double difference = root_mean_square(differences);
  if (difference == 0) return 0;
  const double error = difference / root_mean_square(reference);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

std::span<const StreamKernel> stream_kernels() {
  static const std::vector<StreamKernel> all = all_kernels();
  return all;
}

const StreamKernel* find_stream_kernel(StreamOp op, KernelPass pass) {
  const auto all = stream_kernels();
  const auto found = std::find_if(all.begin(), all.end(), [&](const StreamKernel& kernel) {
    return kernel.op == op && kernel.pass == pass;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace memest::kernels
