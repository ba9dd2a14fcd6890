// GELU, Hendrycks and Gimpel (2016), exact: y = x·Φ(x), Φ(x) = (1 + erf(x/√2))/2;
// dx = dy·(Φ(x) + x·φ(x)), φ(x) = exp(-x²/2)/√(2π).
//
//   forward    2·n·w bytes    5·n FLOPs (erf counts as one)
//   backward   3·n·w bytes   10·n FLOPs (erf and exp count as one each)
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr double kInverseSqrt2 = 0.70710678118654752440;
inline constexpr double kInverseSqrt2Pi = 0.39894228040143267794;

void launch_gelu(const Call& call);
void launch_gelu_backward(const Call& call);

}  // namespace memest::kernels
