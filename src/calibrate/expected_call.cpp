// How long a call may take and how much memory it may need, roughly: what sweeps are planned with.
#include <algorithm>
#include <optional>
#include <variant>

#include "calibrate/sweep_shapes.hpp"
#include "memest/kernels/traffic.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {
namespace {

/// Shares of the datasheet as in docs/calibration.md, rounded.
constexpr double kMatmulShare = 0.75;
constexpr double kAttentionShare = 0.4;
constexpr double kStreamShare = 0.7;
constexpr Seconds kKernel{3e-6};
/// Rates of PCIe 4 through 16 lanes, and of copies through a buffer.
constexpr BytesPerSecond kPinned{20e9};
constexpr BytesPerSecond kPageable{6e9};
constexpr Seconds kTransfer{10e-6};
constexpr BytesPerSecond kLink{50e9};
constexpr Seconds kCollective{30e-6};

struct Expected {
  const GpuSpec& gpu;

  std::optional<Seconds> operator()(const MatmulShape& shape) const {
    const auto machine = machine_of(gpu, shape.operand, shape.tensor_float);
    if (!machine) return std::nullopt;
    const double compute = flops_of(shape) / (machine->flops_per_second * kMatmulShare);
    // The roof of compute or memory, whichever is longer: a plan needs the order of a time, no
    // more.
    const double move =
        matmul_traffic(shape).as_double() / (machine->bytes_per_second * kStreamShare);
    return Seconds(std::max(compute, move)) + kKernel;
  }
  std::optional<Seconds> operator()(const AttentionShape& shape) const {
    const auto machine = machine_of(gpu, shape.dtype);
    if (!machine) return std::nullopt;
    return Seconds(flops_of(shape) / (machine->flops_per_second * kAttentionShare)) + kKernel;
  }
  std::optional<Seconds> operator()(const StreamShape& shape) const {
    if (!machine_of(gpu, DType::fp32)) return std::nullopt;
    return Bytes(shape.bytes) / (gpu.memory_bandwidth->value * kStreamShare) + kKernel;
  }
  std::optional<Seconds> operator()(const CollectiveShape& shape) const {
    return Bytes(shape.bytes) / kLink + kCollective;
  }
  std::optional<Seconds> operator()(const TransferShape& shape) const {
    const bool pinned = shape.path == TransferPath::host_to_device_pinned ||
                        shape.path == TransferPath::device_to_host_pinned;
    return Bytes(shape.bytes) / (pinned ? kPinned : kPageable) + kTransfer;
  }
  std::optional<Seconds> operator()(const LaunchShape&) const { return kKernel; }
};

struct Footprint {
  Bytes operator()(const MatmulShape& shape) const { return matmul_traffic(shape); }
  Bytes operator()(const AttentionShape& shape) const {
    const std::int64_t widths = shape.head_dim + shape.value_head_dim;
    const std::int64_t forward = (shape.heads + shape.kv_heads) * widths * size_of(shape.dtype);
    return Bytes(shape.batch) * shape.seq_len * forward *
           (shape.pass == KernelPass::forward ? 1 : 2);
  }
  Bytes operator()(const StreamShape& shape) const { return Bytes(shape.bytes); }
  // A buffer to send from and one to receive in.
  Bytes operator()(const CollectiveShape& shape) const { return Bytes(shape.bytes) * 2; }
  Bytes operator()(const TransferShape& shape) const { return Bytes(shape.bytes); }
  Bytes operator()(const LaunchShape&) const { return Bytes(0); }
};

}  // namespace

std::optional<Seconds> expected_call(const GpuSpec& gpu, const KernelShape& shape) {
  return std::visit(Expected{gpu}, shape);
}

Bytes footprint(const KernelShape& shape) { return std::visit(Footprint{}, shape); }

}  // namespace memest
