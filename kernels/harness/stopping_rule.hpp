// When enough samples were taken.
#pragma once

#include <span>

#include "memest/kernels/backend.hpp"

namespace memest::kernels {

enum class Enough : std::uint8_t {
  no,
  known,    ///< the median, as well as asked
  too_long  ///< the time is spent
};

/// `samples` are seconds a call, `spent` is the time that all samples took, those not kept as well.
/// The time goes before the count: a shape of a second a call gets as many samples as fit.
Enough enough(std::span<const double> samples, Seconds spent, const RulerSettings& settings);

}  // namespace memest::kernels
