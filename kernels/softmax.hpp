// Softmax over each row: y = exp(x - max x)/Σ exp(x - max x); dx = y·(dy - Σ dy·y).
//
//   forward    2·n·w bytes   5·n FLOPs (exp counts as one)
//   backward   3·n·w bytes   4·n FLOPs
//
// Forward holds a row in registers up to four 16-byte vectors of each of 1024 threads (32768 bf16),
// backward up to half as many of y and of dy. Longer rows are reread, forward twice; the
// bytes above count it once.
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

void launch_softmax(const Call& call);
void launch_softmax_backward(const Call& call);

}  // namespace memest::kernels
