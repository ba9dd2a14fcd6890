// Samples that no kernel can have: a column in another unit, a window that was left out, a row of
// another GPU.
#pragma once

#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/gpu/sample.hpp"

namespace memest {

/// Takes the samples out that compute more than `gpu` can in their time, with a warning at the file
/// and line of each of the first ones.
Diagnostics drop_impossible(const GpuSpec& gpu, std::vector<Sample>& samples);

}  // namespace memest
