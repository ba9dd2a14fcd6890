// What a GPU reaches of its datasheet within a training step: one efficiency for each class of
// work, from published measurements, and the interval in which recorded steps scatter. Derivation,
// numbers and sources: docs/calibration.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "profile_laws.hpp"

namespace memest {

/// FLOP/s of one operand type; zero where the GPU has no rate for it.
struct TypeRate {
  double peak = 0;    ///< the datasheet's
  double matmul = 0;  ///< what matrix products reach
};

/// Which end of the interval.
enum class Outlook : std::uint8_t { fast, expected, slow };

/// Rates that kernels reach, in FLOP/s and B/s.
struct Rates {
  TypeRate fp32;
  TypeRate half;
  TypeRate fp8;
  double attention_forward = 0;  ///< fraction of the operand type's peak, for long sequences
  double attention_backward = 0;
  double stream = 0;  ///< element-wise, copies, matmul operands, optimizer
  double normalization_forward = 0;
  double normalization_backward = 0;
  double link = 0;    ///< one direction between the ranks; 0 for one rank
  double launch = 0;  ///< seconds a kernel takes at least
  ProfileLaws laws;   ///< of contractions, where the GPU has a profile

  [[nodiscard]] const TypeRate& of(DType type) const;
};

/// The rates of `hardware.gpu` for a ring over `ranks` GPUs, or why there are none: no rate for
/// `compute`, no memory bandwidth, no link, several nodes.
std::variant<Rates, Unavailable> rates_of(const Hardware& hardware, DType compute,
                                          std::int64_t ranks, Outlook outlook);

/// The rule in one sentence, with its source: whether steps were recorded on this kind of GPU.
std::string_view efficiency_rule(const GpuSpec& gpu);
/// The same where contractions are timed by the laws of the GPU's profile.
std::string_view law_rule(const GpuSpec& gpu);

}  // namespace memest
