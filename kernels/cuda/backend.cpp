#include <algorithm>
#include <optional>
#include <string>

#include "kernels/attention.hpp"
#include "kernels/check_shape.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/collective.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/operands.hpp"
#include "kernels/cuda/transfer.hpp"
#include "kernels/gpu_module.hpp"
#include "kernels/harness/device_stopwatch.hpp"
#include "kernels/harness/ruler.hpp"
#include "kernels/launch.hpp"
#include "kernels/launches.hpp"
#include "kernels/rotation.hpp"
#include "memest/diag/environment.hpp"
#include "memest/diag/expect.hpp"

namespace memest::kernels {
namespace {

void prepare(const Workload& workload, const DeviceOperands& operands, const Device& device) {
  if (!workload.prepare) return;
  for (std::int64_t copy = 0; copy < operands.copies(); ++copy) {
    workload.prepare(operands.of_call(copy), device.stream.handle());
  }
  device.stream.synchronize();
}

/// Runs the workload once on the device, and its reference on the same inputs.
std::vector<KernelCheck> compare(const Workload& workload, const Device& device) {
  const std::vector<Operand>& operands = workload.description.operands;
  const DeviceOperands on_device(workload.description, 1, device.stream);
  prepare(workload, on_device, device);
  std::vector<std::vector<double>> values;
  std::vector<double*> reference;
  for (std::size_t i = 0; i < operands.size(); ++i) values.push_back(on_device.read(i));
  // The reference computes in double on the very inputs that the device has, rounded as they are.
  for (std::vector<double>& each : values) reference.push_back(each.data());

  workload.enqueue(on_device.of_call(0), device.stream.handle());
  device.stream.synchronize();
  workload.reference(reference.data());
  std::vector<KernelCheck> checks;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!is_result(operands[i])) continue;
    checks.push_back(
        {.result = std::string(operands[i].name),
         .error = workload.error(on_device.read(i), values[i]),
         .tolerance = std::max(tolerance(operands[i].dtype), workload.least_tolerance)});
  }
  return checks;
}

class CudaBackend : public Backend {
 public:
  [[nodiscard]] DeviceFacts facts() const override {
    DeviceFacts facts = device_.facts();
    if (const std::string cudnn = attention_.library(); !cudnn.empty()) {
      facts.libraries.push_back(cudnn);
    }
    return facts;
  }

  [[nodiscard]] bool can_measure(const KernelShape& shape) const override {
    return std::visit([this](const auto& one) { return can(one); }, shape);
  }

  std::vector<KernelCheck> check(const KernelShape& shape) override {
    expect(can_measure(shape), "only what can be measured is checked");
    return std::visit([this](const auto& one) { return check_one(one); }, shape);
  }

  std::optional<std::string> difference(const KernelShape& shape) override {
    expect(can_measure(shape), "only what can be measured is checked");
    return std::visit([this](const auto& one) { return difference_of(one); }, shape);
  }

  Measurement measure(const KernelShape& shape, const RulerSettings& settings) override {
    expect(can_measure(shape), "only what can be measured is measured");
    return std::visit([&](const auto& one) { return time(one, settings); }, shape);
  }

  Measurement measure_best(const MatmulShape& shape, const RulerSettings& settings) override {
    Measurement best = measure(shape, settings);
    // The heuristic's first choice is what a framework runs; a ceiling is of the fastest.
    for (int rank = 1; rank < matmul_ranks(cublas_, shape); ++rank) {
      const Measurement other = time_workload(matmul_workload(cublas_, shape, rank), settings);
      if (other.median < best.median) best = other;
    }
    return best;
  }

  Measurement measure_spin(Seconds time, const RulerSettings& settings) override {
    const auto nanoseconds = static_cast<std::int64_t>(time.value() * 1e9);
    return time_calls(
        Submission::graph, [&](std::int64_t) { launch_spin(nanoseconds, device_.stream.handle()); },
        settings);
  }

 private:
  [[nodiscard]] bool can(const MatmulShape& shape) const {
    return can_multiply(cublas_, shape) && fits(workload(shape).description);
  }
  [[nodiscard]] static bool can(const StreamShape& shape) {
    return std::min(shape.rows, shape.columns) > 0 && find_launcher(shape) != nullptr &&
           fits(workload(shape).description);
  }
  [[nodiscard]] static bool can(const TransferShape& shape) {
    return shape.bytes > 0 && Bytes(shape.bytes) * 2 <= Device::free_memory();
  }
  [[nodiscard]] static bool can(const LaunchShape&) { return true; }
  /// The workspace is known once the kernel is compiled; fp32 sums of gradients make it less than
  /// the operands, for which twice their memory is asked.
  [[nodiscard]] bool can(const AttentionShape& shape) const {
    return attention_.supports(shape) && fits(describe_attention(shape));
  }
  [[nodiscard]] bool can(const CollectiveShape& shape) const {
    return can_communicate(nccl_, shape);
  }

  [[nodiscard]] static bool fits(const Description& description) {
    return DeviceOperands::memory(description) * 2 <= Device::free_memory();
  }

  [[nodiscard]] Workload workload(const MatmulShape& shape) const {
    return matmul_workload(cublas_, shape);
  }
  [[nodiscard]] static Workload workload(const StreamShape& shape) {
    return stream_workload(shape);
  }
  [[nodiscard]] Workload workload(const AttentionShape& shape) const {
    return attention_.workload(shape);
  }

  template <class Shape>
  std::vector<KernelCheck> check_one(const Shape& shape) {
    if constexpr (kHasWorkload<Shape>) {
      return compare(workload(check_shape(shape)), device_);
    } else {
      return {};
    }
  }

  template <class Shape>
  static constexpr bool kHasWorkload =
      std::is_same_v<Shape, MatmulShape> || std::is_same_v<Shape, StreamShape> ||
      std::is_same_v<Shape, AttentionShape>;

  template <class Shape>
  std::optional<std::string> difference_of(const Shape& shape) {
    if constexpr (kHasWorkload<Shape>) {
      return checked_.difference(check_shape(shape), [&] { return check_one(shape); });
    } else {
      return std::nullopt;
    }
  }

  template <class Shape>
  Measurement time(const Shape& shape, const RulerSettings& settings) {
    if constexpr (kHasWorkload<Shape>) {
      if (const auto differs = difference_of(shape)) throw EnvironmentError(*differs);
      return time_workload(workload(shape), settings);
    } else if constexpr (std::is_same_v<Shape, TransferShape>) {
      return measure_transfer(device_, shape, settings);
    } else if constexpr (std::is_same_v<Shape, CollectiveShape>) {
      return measure_collective(device_, nccl_, shape, settings);
    } else {
      return time_calls(
          shape.path == LaunchPath::graph ? Submission::graph : Submission::stream,
          [&](std::int64_t) { launch_empty(device_.stream.handle()); }, settings);
    }
  }

  [[nodiscard]] Measurement time_workload(const Workload& work,
                                          const RulerSettings& settings) const {
    const DeviceOperands operands(
        work.description,
        // Calls take turns at copies of the operands, so that none finds its own in the L2 cache.
        copies(DeviceOperands::memory(work.description), device_.l2_cache, Device::free_memory()),
        device_.stream);
    prepare(work, operands, device_);
    return time_calls(
        Submission::graph,
        [&](std::int64_t call) { work.enqueue(operands.of_call(call), device_.stream.handle()); },
        settings);
  }

  Measurement time_calls(Submission submission, std::function<void(std::int64_t)> enqueue,
                         const RulerSettings& settings) const {
    DeviceStopwatch stopwatch(device_.stream, device_.nvml, submission, std::move(enqueue));
    return kernels::measure(stopwatch, settings);
  }

  Device device_;
  CublasLt cublas_{device_.capability};
  CudnnAttention attention_;
  Nccl nccl_;
  CheckedKernels checked_;
};

}  // namespace
}  // namespace memest::kernels

extern "C" __attribute__((visibility("default"))) memest::Backend* memest_open_cuda_backend() {
  return std::make_unique<memest::kernels::CudaBackend>().release();
}
