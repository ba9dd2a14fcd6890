// The host as a machine that laws can be fitted on: no datasheet says its rates, so they are the
// best that it reached.
#pragma once

#include <vector>

#include "memest/kernels/backend.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/sample.hpp"

namespace memest {

/// Slug of the host in samples and profiles.
inline constexpr const char* kHost = "host";

/// The machine with the best rates among `samples` of fp32; a guess at one core's, for planning,
/// where they have none.
ProfiledMachine profiled_machine_of(const DeviceFacts& facts, const std::vector<Sample>& samples);

}  // namespace memest
