// Observable figures of a training run, alike on both sides: as a recorded run
// measured them and as an estimate predicts them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/units/quantity.hpp"

namespace memest {

enum class RunOutcome : std::uint8_t { ok, out_of_memory };
/// "ok", "oom".
std::string_view name_of(RunOutcome outcome);

/// Bytes allocated at a point of the run: "model", "step1.forward_peak", "step2.optimizer_end".
struct PhaseBytes {
  std::string name;
  Bytes bytes;
};

struct RankObservables;

/// Only what was measured, or can be predicted, is present. Bytes, FLOPs and tokens are one rank's,
/// FLOPs of one micro-step; parameters are those of all ranks, tied weights once.
struct Observables {
  std::optional<std::int64_t> data_rank;  ///< whose figures these are; absent where nobody says
  std::optional<Bytes> allocated_peak;
  std::optional<Bytes> reserved_peak;
  std::optional<Bytes> device;  ///< as nvidia-smi shows
  std::optional<Seconds> step;
  std::optional<double> tokens_per_second_per_gpu;
  std::optional<std::int64_t> parameters;
  std::optional<std::int64_t> trainable_parameters;
  std::optional<Bytes> buffers;
  std::optional<Bytes> saved;  ///< kept by autograd in one forward
  /// Bytes that each block is the first to keep; one number where all are equal, empty where
  /// every block is recomputed.
  std::optional<std::vector<Bytes>> saved_by_layer;
  std::optional<Flops> forward;   ///< as torch's FlopCounterMode counts
  std::optional<Flops> backward;  ///< as torch's FlopCounterMode counts; recompute counts here
  std::vector<PhaseBytes> phases;
  std::vector<RankObservables> ranks;  ///< pipeline ranks, where they were looked at one by one
  std::optional<RunOutcome> outcome;
};

struct RankObservables {
  std::int64_t rank = 0;
  Observables observed;
};

/// A kind of figure that a prediction is held to.
enum class Metric : std::uint8_t {
  allocated_peak_bytes,
  reserved_peak_bytes,
  device_bytes,
  step_seconds,
  tokens_per_second_per_gpu,
  parameters,
  trainable_parameters,
  buffer_bytes,
  saved_bytes,
  saved_bytes_per_layer,
  forward_flops,
  backward_flops,
  phases,
  outcome
};
inline constexpr std::size_t kMetrics = static_cast<std::size_t>(Metric::outcome) + 1;

/// The key of a record: "allocated_peak_bytes".
std::string_view name_of(Metric metric);

/// Every metric, in the order of the enum.
const std::array<Metric, kMetrics>& all_metrics();

/// Whether a prediction is right or wrong, and never near: counts, and the outcome.
bool is_exact(Metric metric);

/// The figures of a run that are approximate: its spec leaves out something that decides them.
struct Approximation {
  bool memory = false;
  bool time = false;

  [[nodiscard]] bool holds(Metric metric) const;
};

}  // namespace memest
