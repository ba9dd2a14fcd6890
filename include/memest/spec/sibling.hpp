// Which GPU types run alike, so that what was measured of one says something of the other.
#pragma once

#include <memory>
#include <optional>

#include "memest/spec/gpu/gpu.hpp"

namespace memest {

/// How far `other` is from `gpu`; none where they do not run alike. The same architecture, by its
/// compute capability, and about the same power for a FLOP/s: what a product reaches of the
/// datasheet hangs on both. The nearest is nearest in rate, bandwidth and power together.
std::optional<double> distance_between(const GpuSpec& gpu, const GpuSpec& other);

/// `measured` lends its profile to `gpu`.
Sibling sibling_of(const GpuSpec& gpu, const GpuSpec& measured);

}  // namespace memest
