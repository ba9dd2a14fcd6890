// Layer normalization, Ba et al. (2016), over each row of h columns:
// x̂ = (x - mean)·rstd, rstd = 1/√(variance + ε), y = γ·x̂ + β.
// Backward, with g = γ·dy: dx = rstd·(g - mean(g) - x̂·mean(g·x̂)), dγ = Σ dy·x̂ and dβ = Σ dy over
// rows.
//
//   forward    (2·n + 2·h)·w + 8·rows bytes    8·n FLOPs
//   backward   (3·n + 3·h)·w + 8·rows bytes   14·n FLOPs
//
// Mean and rstd are kept in fp32. Backward leaves a partial sum of dγ and dβ for each group of
// threads that walks rows, at most kMostPartials; about a hundredth of the traffic, not counted. It
// holds its row, and so has no kernel for rows over kLongestNormRow (norm_partials.hpp).
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr float kLayerNormEpsilon = 1e-5F;

void launch_layernorm(const Call& call);
void launch_layernorm_backward(const Call& call);

}  // namespace memest::kernels
