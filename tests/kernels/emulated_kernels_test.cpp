// Every kernel of the device, its sources compiled as host C++, against its reference in double.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "emulation/emulated_cuda.hpp"
#include "kernels/cast.hpp"
#include "kernels/description.hpp"
#include "kernels/element.hpp"
#include "kernels/encoding.hpp"
#include "kernels/fill.hpp"
#include "kernels/launches.hpp"

using namespace memest;
using namespace memest::kernels;

namespace {

constexpr std::ptrdiff_t kGuardBytes = 64;
constexpr unsigned char kGuard = 0xA5;

/// An operand as the device holds it, and as doubles for the reference. Rounded to its type first,
/// so that both begin with the same numbers.
struct Array {
  std::vector<unsigned char> device;
  std::vector<double> reference;
};

Array make_array(const Operand& operand, std::uint64_t seed) {
  Array array;
  array.reference.assign(static_cast<std::size_t>(operand.elements),
                         std::numeric_limits<double>::quiet_NaN());
  if (operand.access == Access::reads || operand.access == Access::updates) {
    fill<double>(operand, seed, array.reference);
  }
  array.device = encode(operand.dtype, array.reference);
  array.reference = decode(operand.dtype, array.device);
  array.device.insert(array.device.end(), kGuardBytes, kGuard);
  return array;
}

/// What the device left in an operand. No kernel writes behind one's end.
std::vector<double> result_of(const Operand& operand, const Array& array) {
  const auto end = array.device.end() - kGuardBytes;
  CHECK(std::all_of(end, array.device.end(), [](unsigned char byte) { return byte == kGuard; }));
  return decode(operand.dtype, {array.device.begin(), end});
}

/// Runs the kernel in one order of threads and compares every result.
void compare(const StreamShape& shape, FiberOrder order) {
  const StreamKernel* kernel = find_stream_kernel(shape.op, shape.pass);
  const Launcher launch_kernel = find_launcher(shape);
  REQUIRE(kernel != nullptr);
  REQUIRE(launch_kernel != nullptr);
  const Description description = kernel->describe(shape);
  std::vector<Array> arrays;
  std::vector<void*> device;
  std::vector<double*> reference;
  for (const Operand& operand : description.operands) {
    arrays.push_back(make_array(operand, arrays.size()));
  }
  for (Array& array : arrays) {
    device.push_back(array.device.data());
    reference.push_back(array.reference.data());
  }

  set_fiber_order(order);
  launch_kernel({.dtype = shape.dtype,
                 .rows = shape.rows,
                 .columns = shape.columns,
                 .operands = device.data()});
  kernel->reference(shape, reference.data());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Operand& operand = description.operands[i];
    INFO(name_of(shape.op) << ' ' << name_of(shape.pass) << ' ' << name_of(shape.dtype) << " ["
                           << shape.rows << ", " << shape.columns << "]: " << operand.name);
    const std::vector<double> result = result_of(operand, arrays[i]);
    if (!is_result(operand)) continue;
    CHECK(largest_error(result, arrays[i].reference) <= tolerance(operand.dtype));
  }
}

struct Size {
  std::int64_t rows;
  std::int64_t columns;
};

void compare_at(const StreamKernel& kernel, const Size& size) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8}) {
    const StreamShape shape{.op = kernel.op,
                            .pass = kernel.pass,
                            .dtype = dtype,
                            .rows = size.rows,
                            .columns = size.columns};
    if (find_launcher(shape) == nullptr) continue;
    compare(shape, FiberOrder::first_to_last);
    compare(shape, FiberOrder::last_to_first);
  }
}

}  // namespace

TEST_CASE("every kernel of the device has a description and the other way round") {
  for (const StreamKernel& kernel : stream_kernels()) {
    INFO(name_of(kernel.op));
    CHECK(find_launcher({.op = kernel.op, .pass = kernel.pass, .columns = 8}) != nullptr);
  }
  CHECK(find_launcher({.op = StreamOp::copy, .pass = KernelPass::backward, .columns = 8}) ==
        nullptr);
  CHECK(find_launcher({.op = StreamOp::copy, .dtype = DType::fp8, .columns = 8}) == nullptr);
}

TEST_CASE("kernels match their references at odd, even, short and long rows") {
  // One element; less than a vector; whole vectors; a row of one warp and a bit; of several warps;
  // odd, so that no row but the first is aligned; rows of several positions.
  for (const Size& size :
       {Size{1, 1}, Size{1, 15}, Size{3, 7}, Size{11, 64}, Size{2, 1032}, Size{5, 2056},
        Size{3, 1001}, Size{9, 257}, Size{67, 24}, Size{67, 32}}) {
    for (const StreamKernel& kernel : stream_kernels()) {
      if (kernel.op == StreamOp::embedding && size.columns > 64) continue;  // of a large table
      compare_at(kernel, size);
    }
  }
}

TEST_CASE("rows that no block holds in its registers are read again") {
  for (const auto& [op, pass] : {std::pair{StreamOp::softmax, KernelPass::forward},
                                 std::pair{StreamOp::softmax, KernelPass::backward},
                                 std::pair{StreamOp::cross_entropy, KernelPass::forward},
                                 std::pair{StreamOp::rmsnorm, KernelPass::forward},
                                 std::pair{StreamOp::read, KernelPass::forward}}) {
    compare_at(*find_stream_kernel(op, pass), {2, 35'003});
  }
}

TEST_CASE("a fitting cast maps the largest magnitude to the largest fp8") {
  for (const std::int64_t elements : {1, 15, 64, 8'192, 20'001}) {
    const Array x = make_array({.name = "x", .dtype = DType::bf16, .elements = elements}, 7);
    double largest = 0;
    for (const double value : x.reference) largest = std::max(largest, std::abs(value));
    for (const FiberOrder order : {FiberOrder::first_to_last, FiberOrder::last_to_first}) {
      Array y = make_array(
          {.name = "y", .dtype = DType::fp8, .elements = elements, .access = Access::writes}, 0);
      std::array<float, 2> found = {-1, -1};  // the largest, and the scale's inverse
      const std::array<void*, 4> operands = {const_cast<unsigned char*>(x.device.data()),
                                             y.device.data(), &found[0], &found[1]};
      set_fiber_order(order);
      launch_fitting_cast({.columns = elements, .operands = operands.data()});
      CHECK(found[0] == static_cast<float>(largest));
      CHECK(found[1] == 1 / fp8_scale(found[0]));
      std::vector<double> scaled = result_of(
          {.name = "y", .dtype = DType::fp8, .elements = elements, .access = Access::writes}, y);
      for (double& value : scaled) value *= found[1];
      CHECK(largest_error(scaled, x.reference) <= tolerance(DType::fp8));
    }
  }
  CHECK(fp8_scale(0) == 1);
  CHECK(fp8_scale(7) * 7 == kFp8Largest);
}

TEST_CASE("norm backward holds its longest row and refuses a longer one") {
  compare({.op = StreamOp::layernorm,
           .pass = KernelPass::backward,
           .dtype = DType::bf16,
           .rows = 4,
           .columns = 16'384},
          FiberOrder::first_to_last);
  CHECK(find_launcher({.op = StreamOp::rmsnorm,
                       .pass = KernelPass::backward,
                       .dtype = DType::bf16,
                       .columns = 16'392}) == nullptr);
}
