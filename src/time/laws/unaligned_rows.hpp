// Products whose rows do not begin at multiples of 16 bytes, as those with 50,257 columns in bf16:
// no kernel that loads 16 bytes at a time can take them.
#pragma once

#include <optional>

#include "memest/spec/gpu/gpu_target.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest {

/// The share of the datasheet's peak that such a product reaches at most; nothing where its rows
/// are aligned, or where nobody measured it on such a GPU.
std::optional<double> share_of_unaligned(const MatmulShape& shape,
                                         std::optional<ComputeCapability> capability);

}  // namespace memest
