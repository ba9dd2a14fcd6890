// Rotary position embedding, Su et al. (2021), with the halves of a row as the two coordinates, as
// most models have it. A row is a head of h columns at a position; kRotaryHeads of them in turn
// share one. With its tables cos and sin of h/2 columns a position:
//
//   y₁ = x₁·cos - x₂·sin   y₂ = x₂·cos + x₁·sin
//
// Backward turns the other way: sin with its sign changed. The last of an odd number of columns is
// copied.
//
//   each   (2·n + 2·⌈rows/kRotaryHeads⌉·⌊h/2⌋)·w bytes   3·n FLOPs
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr std::int64_t kRotaryHeads = 32;

void launch_rotary(const Call& call);
void launch_rotary_backward(const Call& call);

}  // namespace memest::kernels
