// The gate of a gated feed-forward: y = silu(g)·u, silu(g) = g·σ(g), σ(g) = 1/(1 + exp(-g)).
// Backward: dg = dy·u·σ(g)·(1 + g·(1 - σ(g))), du = dy·silu(g).
//
//   forward    3·n·w bytes    5·n FLOPs (exp counts as one)
//   backward   5·n·w bytes   11·n FLOPs
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

void launch_silu_mul(const Call& call);
void launch_silu_mul_backward(const Call& call);

}  // namespace memest::kernels
