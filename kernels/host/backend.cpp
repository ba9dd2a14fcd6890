#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>

#include "kernels/attention.hpp"
#include "kernels/check_shape.hpp"
#include "kernels/description.hpp"
#include "kernels/harness/ruler.hpp"
#include "kernels/host/arrays.hpp"
#include "kernels/host/attention.hpp"
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
Description describe(const AttentionShape& shape) { return describe_attention(shape); }
void run(const AttentionShape& shape, float* const* operands) { host_attention(shape, operands); }
void run(const AttentionShape& shape, double* const* operands) {
  attention_reference(shape, operands);
}
void run_reference(const AttentionShape& shape, HostArrays<double>& arrays) {
  run(shape, arrays.of_call(0));
}

/// Inputs that are more than random numbers: what a forward leaves for its backward.
template <class T>
void prepare(const AttentionShape& shape, HostArrays<T>& arrays, std::int64_t copies = 1) {
  if (shape.pass == KernelPass::forward) return;
  for (std::int64_t copy = 0; copy < copies; ++copy) run(forward_of(shape), arrays.of_call(copy));
}
template <class Shape, class T>
void prepare(const Shape&, HostArrays<T>&, std::int64_t = 1) {}

template <class Shape>
std::vector<KernelCheck> compare(const Shape& shape) {
  const Description description = describe(shape);
  HostArrays<float> arrays(description, 1);
  HostArrays<double> expected(description, 1);
  prepare(shape, arrays);
  prepare(shape, expected);
  run(shape, arrays.of_call(0));
  run_reference(shape, expected);
  std::vector<KernelCheck> checks;
  for (std::size_t i = 0; i < description.operands.size(); ++i) {
    const Operand& operand = description.operands[i];
    if (!is_result(operand)) continue;
    const auto result = arrays.operand(i);
    checks.push_back({.result = std::string(operand.name),
                      .error = largest_error(std::vector<double>(result.begin(), result.end()),
                                             expected.operand(i)),
                      .tolerance = tolerance(DType::fp32)});
  }
  return checks;
}

void spin(Seconds time) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(time.value());
  while (std::chrono::steady_clock::now() < end) {
  }
}

class HostBackend : public Backend {
 public:
  [[nodiscard]] DeviceFacts facts() const override { return host_facts(); }

  [[nodiscard]] bool can_measure(const KernelShape& shape) const override {
    return std::visit([](const auto& one) { return can(one); }, shape);
  }

  std::vector<KernelCheck> check(const KernelShape& shape) override {
    expect(can_measure(shape), "only what can be measured is checked");
    return std::visit([](const auto& one) { return check_one(one); }, shape);
  }

  std::optional<std::string> difference(const KernelShape& shape) override {
    expect(can_measure(shape), "only what can be measured is checked");
    return std::visit([this](const auto& one) { return difference_of(one); }, shape);
  }

  Measurement measure(const KernelShape& shape, const RulerSettings& settings) override {
    expect(can_measure(shape), "only what can be measured is measured");
    return std::visit([&](const auto& one) { return time(one, settings); }, shape);
  }

  Measurement measure_spin(Seconds time, const RulerSettings& settings) override {
    HostStopwatch stopwatch([=](std::int64_t) { spin(time); });
    return kernels::measure(stopwatch, settings);
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
    // A mask of one byte is four here: where that is much, the time would be of other bytes.
    const double share = moved_in_fp32(description) / traffic(description);
    return share < 1 + kForeignShare && share > 1 - kForeignShare && fits(description);
  }
  static bool can(const LaunchShape& shape) { return shape.path == LaunchPath::stream; }
  static bool can(const AttentionShape& shape) {
    const bool is_ours = shape.kernel.empty() || shape.kernel == kHostAttention;
    return is_ours && shape.dtype == DType::fp32 && is_attention(shape) && fits(describe(shape));
  }
  static bool can(const CollectiveShape&) { return false; }
  static bool can(const TransferShape&) { return false; }

  static bool fits(const Description& description) {
    return memory_in_fp32(description) * 2 <= host_free_memory();
  }

  template <class Shape>
  static constexpr bool kComputes =
      std::is_same_v<Shape, MatmulShape> || std::is_same_v<Shape, StreamShape> ||
      std::is_same_v<Shape, AttentionShape>;

  template <class Shape>
  static std::vector<KernelCheck> check_one(const Shape& shape) {
    if constexpr (kComputes<Shape>) {
      return compare(check_shape(shape));
    } else {
      return {};
    }
  }

  template <class Shape>
  std::optional<std::string> difference_of(const Shape& shape) {
    if constexpr (kComputes<Shape>) {
      return checked_.difference(check_shape(shape), [&] { return check_one(shape); });
    } else {
      return std::nullopt;
    }
  }

  template <class Shape>
  Measurement time(const Shape& shape, const RulerSettings& settings) {
    if constexpr (kComputes<Shape>) {
      if (const auto differs = difference_of(shape)) throw EnvironmentError(*differs);
      const Description description = describe(shape);
      const std::int64_t round =
          copies(memory_in_fp32(description), host_facts().l2_cache, host_free_memory());
      HostArrays<float> arrays(description, round);
      prepare(shape, arrays, round);
      HostStopwatch stopwatch([&](std::int64_t call) { run(shape, arrays.of_call(call)); });
      return kernels::measure(stopwatch, settings);
    } else {
      // An empty call through a pointer, which is what a launch is here.
      HostStopwatch stopwatch([](std::int64_t) {});
      return kernels::measure(stopwatch, settings);
    }
  }

  CheckedKernels checked_;
};

}  // namespace
}  // namespace kernels

std::unique_ptr<Backend> open_host_backend() { return std::make_unique<kernels::HostBackend>(); }

}  // namespace memest
