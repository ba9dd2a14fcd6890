// Root-mean-square normalization, Zhang and Sennrich (2019), over each row of h columns:
// x̂ = x·rstd, rstd = 1/√(mean(x²) + ε), y = γ·x̂. Backward, with g = γ·dy:
// dx = rstd·(g - x̂·mean(g·x̂)), dγ = Σ dy·x̂ over rows.
//
//   forward    (2·n + h)·w + 4·rows bytes     4·n FLOPs
//   backward   (3·n + 2·h)·w + 4·rows bytes   9·n FLOPs
//
// Partial sums of dγ and the longest row of backward as in layernorm.hpp.
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr float kRmsNormEpsilon = 1e-6F;

void launch_rmsnorm(const Call& call);
void launch_rmsnorm_backward(const Call& call);

}  // namespace memest::kernels
