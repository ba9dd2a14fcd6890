// Which law of a profile is nearest to a kernel call that a step makes.
#pragma once

#include <string_view>
#include <vector>

#include "memest/spec/gpu/gpu_profile.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest {

/// A step's name for the kernel of PyTorch's flash attention.
inline constexpr std::string_view kFlashAttention2 = "flash-2";

/// The fit of the operand type, or of the other 16-bit one; null where there is none.
const MatmulFit* nearest_fit(const std::vector<MatmulFit>& fits, const MatmulShape& shape);
/// The fit of the kernel that PyTorch's own attention comes nearest to. A backward without a law of
/// its own takes the forward's.
const AttentionFit* nearest_fit(const std::vector<AttentionFit>& fits, const AttentionShape& shape);
/// The fit of the operation whose kernel passes over its data alike.
const StreamFit* nearest_fit(const std::vector<StreamFit>& fits, const StreamShape& shape);
/// The fit over as many GPUs, or the nearest number of them.
const CollectiveFit* nearest_fit(const std::vector<CollectiveFit>& fits,
                                 const CollectiveShape& shape);
const TransferFit* nearest_fit(const std::vector<TransferFit>& fits, const TransferShape& shape);
const LaunchFit* nearest_fit(const std::vector<LaunchFit>& fits, const LaunchShape& shape);

}  // namespace memest
