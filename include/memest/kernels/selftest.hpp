// Whether a backend can be believed: its kernels against their references, its ruler against a
// known time, and the rates it reaches, to be held against published ceilings.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "memest/kernels/backend.hpp"
#include "memest/spec/gpu/gpu.hpp"

namespace memest {

struct KernelVerdict {
  KernelShape shape;
  std::vector<KernelCheck> checks;

  [[nodiscard]] bool passed() const;
};

/// A call that was busy for as long as it was asked to be.
struct RulerVerdict {
  Seconds asked;
  Measurement measured;

  /// Not less than asked; more by at most a launch and 2.5 %.
  [[nodiscard]] bool passed() const;
};

struct RateVerdict {
  KernelShape shape;
  Measurement measured;
  double rate = 0;                           ///< FLOP/s of a matrix product, else bytes/s
  std::optional<double> share_of_copy;       ///< of a streaming kernel: over the copy's rate
  std::optional<double> target;              ///< for that share
  std::optional<double> share_of_datasheet;  ///< of its peak or its bandwidth
  std::optional<double> datasheet_target;    ///< for that share
  /// Share of what the datasheet allows at the clock that was seen, where that is known.
  std::optional<double> utilization;

  /// No kernel is faster than its device: such a rate is a measurement that missed it.
  [[nodiscard]] bool possible() const { return !utilization || *utilization <= 1; }
  /// Possible, and at its targets, where it has some.
  [[nodiscard]] bool passed() const;
};

struct Selftest {
  bool judges_times = true;  ///< else kernels alone decide
  std::vector<KernelVerdict> kernels;
  std::vector<RulerVerdict> ruler;
  std::vector<RateVerdict> rates;

  [[nodiscard]] bool passed() const;
};

/// At which size rates are measured, how long each may take, and what they are held to.
struct SelftestSettings {
  std::int64_t rows = 32'768;  ///< of streaming kernels
  std::int64_t columns = 4'096;
  std::int64_t largest_matmul = 8'192;  ///< of m, n and k
  RulerSettings ruler;
  const GpuSpec* datasheet = nullptr;  ///< null: rates have no targets but the device's own copy
  /// False for a processor that others share: a time says nothing of the kernel or of the ruler.
  bool judges_times = true;
};

/// Measures the shapes that the backend can run. `begins` is told of each shape before it is
/// measured and may throw to interrupt.
Selftest selftest_of(Backend& backend, const SelftestSettings& settings,
                     const std::function<void(const KernelShape&)>& begins);

}  // namespace memest
