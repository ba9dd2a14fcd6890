#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "kernels/check_shape.hpp"
#include "kernels/description.hpp"
#include "kernels/harness/ruler.hpp"
#include "kernels/host/arrays.hpp"
#include "kernels/host/machine.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/stopwatch.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rotation.hpp"
#include "memest/diag/environment.hpp"
#include "memest/diag/expect.hpp"
#include "memest/kernels/traffic.hpp"

namespace memest {
namespace kernels {
namespace {

/// Loops hold every operand in fp32, masks and tokens too. A time is one of the shape's bytes only
/// where that changes them by less than this share.
constexpr double kForeignShare = 0.05;

Bytes moved_in_fp32(Description description) {
  for (Operand& operand : description.operands) operand.dtype = DType::fp32;
  return traffic(description);
}

Bytes memory_in_fp32(const Description& description) {
  Bytes sum{0};
  for (const Operand& operand : description.operands) sum += Bytes(operand.elements) * 4;
  return sum;
}

Description describe(const MatmulShape& shape) {
  return {.operands = {{.name = "left", .elements = shape.batch * shape.m * shape.k},
                       {.name = "right", .elements = shape.batch * shape.k * shape.n},
                       {.name = "result",
                        .elements = shape.batch * shape.m * shape.n,
                        .access = shape.accumulates ? Access::updates : Access::writes}}};
}

void run(const MatmulShape& shape, float* const* operands) {
  host_matmul(shape, {.left = operands[0], .right = operands[1], .result = operands[2]});
}
void run_reference(const MatmulShape& shape, HostArrays<double>& arrays) {
  matmul_reference(
      shape, {.left = arrays.operand(0), .right = arrays.operand(1), .result = arrays.operand(2)});
}
Description describe(const StreamShape& shape) {
  return find_stream_kernel(shape.op, shape.pass)->describe(shape);
}
void run(const StreamShape& shape, float* const* operands) {
  find_stream_kernel(shape.op, shape.pass)->loops(shape, operands);
}
void run_reference(const StreamShape& shape, HostArrays<double>& arrays) {
  find_stream_kernel(shape.op, shape.pass)->reference(shape, arrays.of_call(0));
}

/// Throws EnvironmentError where a result is not its reference's: the compiler or the processor
/// computes something else.
template <class Shape>
void check(const Shape& shape) {
  const Description description = describe(shape);
  HostArrays<float> arrays(description, 1);
  HostArrays<double> expected(description, 1);
  run(shape, arrays.of_call(0));
  run_reference(shape, expected);
  for (std::size_t i = 0; i < description.operands.size(); ++i) {
    const Operand& operand = description.operands[i];
    if (operand.access != Access::writes && operand.access != Access::updates) continue;
    const auto result = arrays.operand(i);
    const std::vector<double> values(result.begin(), result.end());
    if (!(largest_error(values, expected.operand(i)) <= tolerance(DType::fp32))) {
      throw EnvironmentError("a kernel of the host differs from its reference in '" +
                             std::string(operand.name) + "'");
    }
  }
}

class HostBackend : public Backend {
 public:
  [[nodiscard]] DeviceFacts facts() const override { return host_facts(); }

  [[nodiscard]] bool can_measure(const KernelShape& shape) const override {
    return std::visit([](const auto& one) { return can(one); }, shape);
  }

  Measurement measure(const KernelShape& shape, const RulerSettings& settings) override {
    expect(can_measure(shape), "only what can be measured is measured");
    return std::visit([&](const auto& one) { return time(one, settings); }, shape);
  }

 private:
  static bool can(const MatmulShape& shape) {
    const bool plain = shape.operand == DType::fp32 && shape.result == DType::fp32 &&
                       shape.scaling == OperandScaling::none && !shape.tensor_float &&
                       !shape.cast_included;
    return plain && std::min({shape.batch, shape.m, shape.n, shape.k}) > 0 && fits(describe(shape));
  }
  static bool can(const StreamShape& shape) {
    if (shape.dtype != DType::fp32 || std::min(shape.rows, shape.columns) <= 0) return false;
    if (find_stream_kernel(shape.op, shape.pass) == nullptr) return false;
    const Description description = describe(shape);
    const double share = moved_in_fp32(description) / traffic(description);
    return share < 1 + kForeignShare && share > 1 - kForeignShare && fits(description);
  }
  static bool can(const LaunchShape& shape) { return shape.path == LaunchPath::stream; }
  static bool can(const AttentionShape&) { return false; }
  static bool can(const CollectiveShape&) { return false; }
  static bool can(const TransferShape&) { return false; }

  static bool fits(const Description& description) {
    return memory_in_fp32(description) * 2 <= host_free_memory();
  }

  /// Matrix products and kernels: checked at a small shape of their kind, then timed.
  template <class Shape>
  Measurement time(const Shape& shape, const RulerSettings& settings) {
    if constexpr (std::is_same_v<Shape, MatmulShape> || std::is_same_v<Shape, StreamShape>) {
      const Shape small = check_shape(shape);
      if (checked_.insert(small).second) check(small);
      const Description description = describe(shape);
      const HostArrays<float> arrays(
          description,
          copies(memory_in_fp32(description), host_facts().l2_cache, host_free_memory()));
      HostStopwatch stopwatch([&](std::int64_t call) { run(shape, arrays.of_call(call)); });
      return kernels::measure(stopwatch, settings);
    } else {
      // An empty call through a pointer, which is what a launch is here.
      HostStopwatch stopwatch([](std::int64_t) {});
      return kernels::measure(stopwatch, settings);
    }
  }

  std::set<KernelShape> checked_;
};

}  // namespace
}  // namespace kernels

std::unique_ptr<Backend> open_host_backend() { return std::make_unique<kernels::HostBackend>(); }

}  // namespace memest
