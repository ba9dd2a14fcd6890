// Which GPU types run alike, so that what was measured of one says something of the other.
#pragma once

#include <memory>
#include <optional>

#include "memest/spec/gpu/gpu.hpp"

namespace memest {

/// How far `other` is from `gpu`; none unless they run alike: with one target (compute
/// capability) and about equal power for a FLOP/s: the share of its peak that a product reaches
/// depends on both. The nearest is nearest in rate, bandwidth and power together.
std::optional<double> distance_between(const GpuSpec& gpu, const GpuSpec& other);

/// `measured` lends its profile to `gpu`.
Sibling sibling_of(const GpuSpec& gpu, const GpuSpec& measured);

}  // namespace memest
