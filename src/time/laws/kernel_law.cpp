#include "memest/time/kernel_law.hpp"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

namespace memest {
namespace {

/// Rows of queries that one threadblock of fused attention takes (FlashAttention 2 and 3, cuDNN).
constexpr double kQueryTile = 128;

/// Predicts the shape that it is called with.
class Prediction {
 public:
  Prediction(const GpuProfile& profile, const GpuSpec& gpu, Load load)
      : profile_(profile), gpu_(gpu), load_(load) {}

  std::optional<Seconds> operator()(const MatmulShape& shape) const {
    const auto machine = machine_of(gpu_, shape.operand, shape.tensor_float);
    const MatmulFit* fit = find_fit(profile_.matmuls, shape);
    if (fit == nullptr || !machine) return std::nullopt;
    return Seconds(seconds_of(fit->law, shape, *machine, load_));
  }
  std::optional<Seconds> operator()(const AttentionShape& shape) const {
    return on_machine(profile_.attentions, shape, shape.dtype);
  }
  std::optional<Seconds> operator()(const StreamShape& shape) const {
    return on_machine(profile_.streams, shape, DType::fp32);  // every GPU has an fp32 rate
  }
  std::optional<Seconds> operator()(const CollectiveShape& shape) const {
    const CollectiveFit* fit = find_fit(profile_.collectives, shape);
    return fit == nullptr ? std::nullopt : std::optional(Seconds(seconds_of(fit->law, shape)));
  }
  std::optional<Seconds> operator()(const TransferShape& shape) const {
    const TransferFit* fit = find_fit(profile_.transfers, shape);
    return fit == nullptr ? std::nullopt : std::optional(Seconds(seconds_of(fit->law, shape)));
  }
  std::optional<Seconds> operator()(const LaunchShape& shape) const {
    const LaunchFit* fit = find_fit(profile_.launches, shape);
    return fit == nullptr ? std::nullopt : std::optional(Seconds(fit->law.seconds));
  }

 private:
  template <class Fits, class Shape>
  [[nodiscard]] std::optional<Seconds> on_machine(const Fits& fits, const Shape& shape,
                                                  DType operand) const {
    const auto machine = machine_of(gpu_, operand);
    const auto* fit = find_fit(fits, shape);
    if (fit == nullptr || !machine) return std::nullopt;
    return Seconds(seconds_of(fit->law, shape, *machine));
  }

  const GpuProfile& profile_;
  const GpuSpec& gpu_;
  Load load_;
};

}  // namespace

std::optional<Machine> machine_of(const GpuSpec& gpu, DType operand, bool tensor_float) {
  const auto peak = gpu.peak.find(operand);
  const bool known = tensor_float ? gpu.tf32_peak.has_value() : peak != gpu.peak.end();
  if (!known || !gpu.memory_bandwidth || !gpu.multiprocessors) return std::nullopt;
  const FlopsPerSecond rate = tensor_float ? gpu.tf32_peak->value : peak->second.value;
  return Machine{.multiprocessors = static_cast<double>(gpu.multiprocessors->value),
                 .flops_per_second = rate.value(),
                 .bytes_per_second = gpu.memory_bandwidth->value.value(),
                 .l2_bytes = gpu.l2_cache ? gpu.l2_cache->value.as_double() : 0};
}

double seconds_of(const AttentionLaw& law, const AttentionShape& shape, const Machine& machine) {
  const auto length = static_cast<double>(shape.seq_len);
  const auto dim = static_cast<double>(shape.head_dim);
  const double peak = machine.flops_per_second * law.peak_share;
  const double dim_loss = 1 + law.head_dim_loss / dim;
  const double compute = flops_of(shape) / peak * (length + law.half_length) / length * dim_loss;
  // A causal tile of the last 128 queries scores all keys on one multiprocessor: two products of 2
  // FLOPs over 128 · s · d. With few heads and long sequences the others wait for it.
  const double path =
      4 * kQueryTile * length * dim / (peak / machine.multiprocessors) * law.path_share * dim_loss;
  return std::max(compute, path) +
         bytes_of(shape) / (machine.bytes_per_second * law.bandwidth_share) + law.launch;
}

double bytes_of(const AttentionShape& shape) {
  const auto tokens = static_cast<double>(shape.batch * shape.seq_len);
  const auto widths = static_cast<double>(shape.head_dim + shape.value_head_dim);
  const auto heads = static_cast<double>(shape.heads + shape.kv_heads);
  return static_cast<double>(size_of(shape.dtype)) * tokens * widths * heads *
         (shape.pass == KernelPass::backward ? 2 : 1);
}

double flops_of(const AttentionShape& shape) {
  const auto rows = static_cast<double>(shape.batch * shape.heads);
  const auto length = static_cast<double>(shape.seq_len);
  const auto dim = static_cast<double>(shape.head_dim);
  const auto value_dim = static_cast<double>(shape.value_head_dim);
  // Backward: scores recomputed, dV and dP over the value's width, dQ and dK over the query's.
  const double widths =
      shape.pass == KernelPass::forward ? dim + value_dim : 3 * dim + 2 * value_dim;
  return 2 * rows * length * length * widths * (shape.causal ? 0.5 : 1);
}

double seconds_of(const StreamLaw& law, const StreamShape& shape, const Machine& machine) {
  const auto bytes = static_cast<double>(shape.bytes);
  const double size = bytes / (law.l2_reach * machine.l2_bytes);
  // A smooth step: 94 % hits at half of the reach, 50 % at it, 6 % at twice.
  const double hit = machine.l2_bytes > 0 ? 1 / (1 + size * size * size * size) : 0;
  const double share = (1 - hit) + hit / law.l2_gain;
  return law.launch + bytes * share / (machine.bytes_per_second * law.bandwidth_share);
}

double ring_factor(const CollectiveShape& shape) {
  const auto gpus = static_cast<double>(shape.gpus);
  // Bytes through one GPU's link over bytes of the message: with 8 GPUs 1.75 for an all-reduce.
  return (shape.op == CollectiveOp::all_reduce ? 2 : 1) * (gpus - 1) / gpus;
}

double seconds_of(const CollectiveLaw& law, const CollectiveShape& shape) {
  const double carried = static_cast<double>(shape.bytes) * ring_factor(shape);
  if (carried == 0) return law.latency;
  // At v = ramp_bytes half of the bandwidth is reached, whatever the exponent.
  return law.latency + carried / law.bandwidth * (1 + std::pow(law.ramp_bytes / carried, law.ramp));
}

double seconds_of(const TransferLaw& law, const TransferShape& shape) {
  return law.latency + static_cast<double>(shape.bytes) / law.bandwidth;
}

std::optional<Seconds> predict(const GpuProfile& profile, const GpuSpec& gpu,
                               const KernelShape& shape, Load load) {
  return std::visit(Prediction(profile, gpu, load), shape);
}

}  // namespace memest
