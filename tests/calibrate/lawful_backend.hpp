// A device that is not real: an H100 whose kernels take what known laws say, with a little noise,
// and whose clock only moves while it measures.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "memest/calibrate/sweep.hpp"
#include "memest/diag/environment.hpp"
#include "memest/kernels/backend.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/time/kernel_law.hpp"

namespace memest {

inline const GpuSpec& h100() {
  static const GpuSpec kGpu = find_gpu("h100-sxm-80gb").value();
  return kGpu;
}

/// What the laws of the device say of a shape.
struct KnownLaws {
  Load load = Load::burst;

  Seconds operator()(const MatmulShape& shape) const {
    MatmulLaw law;
    law.product = {.peak_share = 0.82, .tile_loss = 14, .power_loss = 0.16, .whole_waves = 0.6};
    law.data_gradient = 1.04;
    law.weight_gradient = 1.08;
    if (shape.cast_included) law.cast = StreamLaw{.l2_gain = 1, .l2_reach = 1};
    const Machine machine = *machine_of(h100(), shape.operand, shape.tensor_float);
    return Seconds(seconds_of(law, shape, machine, load));
  }
  Seconds operator()(const AttentionShape& shape) const {
    const AttentionLaw law{.peak_share = shape.pass == KernelPass::forward ? 0.66 : 0.53};
    return Seconds(seconds_of(law, shape, *machine_of(h100(), shape.dtype)));
  }
  Seconds operator()(const StreamShape& shape) const {
    const StreamLaw law{.bandwidth_share = 0.92 - 0.02 * static_cast<double>(shape.op)};
    return Seconds(seconds_of(law, shape, *machine_of(h100(), DType::fp32)));
  }
  Seconds operator()(const CollectiveShape& shape) const {
    return Seconds(seconds_of(CollectiveLaw{}, shape));
  }
  Seconds operator()(const TransferShape& shape) const {
    return Seconds(seconds_of(TransferLaw{}, shape));
  }
  Seconds operator()(const LaunchShape&) const { return Seconds(2.6e-6); }
};

class LawfulBackend : public Backend {
 public:
  double noise = 0;      ///< largest share by which a time is off
  double slowness = 1;   ///< clock seconds for one that was expected
  int fails_after = -1;  ///< measurements; never where negative
  bool throttles = false;
  std::function<bool(const KernelShape&)> differs{};  ///< kernels that are wrong
  DeviceFacts device{.name = "NVIDIA H100 80GB HBM3",
                     .compute_capability = kHopper,
                     .multiprocessors = 132,
                     .memory = Bytes(80 * kGiB),
                     .l2_cache = Bytes(50 * kMiB),
                     .driver = "580.1",
                     .libraries = {"CUDA 13.0"},
                     .free_memory = Bytes(79 * kGiB)};
  Seconds clock{100};                 ///< what a run's clock shows
  std::vector<RulerSettings> rulers;  ///< that it was asked to measure with

  [[nodiscard]] DeviceFacts facts() const override { return device; }
  [[nodiscard]] bool can_measure(const KernelShape& shape) const override {
    if (const auto* attention = std::get_if<AttentionShape>(&shape)) {
      return attention->kernel == kGpuAttention;
    }
    if (const auto* collective = std::get_if<CollectiveShape>(&shape)) return collective->gpus <= 8;
    const auto* stream = std::get_if<StreamShape>(&shape);
    if (stream != nullptr && stream->dtype == DType::fp8 && stream->op != StreamOp::cast) {
      return false;
    }
    return stream == nullptr || Bytes(stream->bytes) * 2 <= device.free_memory;
  }
  std::vector<KernelCheck> check(const KernelShape&) override { return {}; }
  std::optional<std::string> difference(const KernelShape& shape) override {
    if (!differs || !differs(shape)) return std::nullopt;
    return "a kernel differs from its reference";
  }
  Measurement measure(const KernelShape& shape, const RulerSettings& settings) override {
    if (fails_after == static_cast<int>(rulers.size())) {
      throw EnvironmentError("CUDA: an illegal memory access was encountered");
    }
    rulers.push_back(settings);
    clock += takes(settings) * slowness;
    const double off = noise * std::sin(12.9898 * static_cast<double>(rulers.size()));
    Measurement measured;
    measured.median = std::visit(KnownLaws{settings.load}, shape) * (1 + off);
    measured.clock_mhz = settings.load == Load::burst ? 1980 : 1410;
    measured.throttled = throttles && settings.load == Load::burst;
    return measured;
  }
  Measurement measure_spin(Seconds, const RulerSettings&) override { return {}; }

  [[nodiscard]] SweepDevice as_device() const {
    return {device, h100(), [this](const KernelShape& shape) { return can_measure(shape); }};
  }

 private:
  static Seconds takes(const RulerSettings& settings) {
    return settings.load == Load::burst ? Seconds(0.15) : settings.sustained_for + Seconds(0.05);
  }
};

}  // namespace memest
