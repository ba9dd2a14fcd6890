// The cross-entropy of each row of logits against its target: loss = lse - x[target],
// lse = max + log Σ exp(x - max), which backward reads: dx = (exp(x - lse) - [c = target])/rows,
// the gradient of the mean.
//
//   forward    n·w + 16·rows bytes     5·n FLOPs (exp counts as one)
//   backward   2·n·w + 12·rows bytes   3·n FLOPs
//
// One pass each at any number of columns: the maximum moves while the sum is made (Milakov and
// Gimelshein, 2018).
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

void launch_cross_entropy(const Call& call);
void launch_cross_entropy_backward(const Call& call);

}  // namespace memest::kernels
