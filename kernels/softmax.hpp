// Softmax over each row: y = exp(x - max x)/Σ exp(x - max x); dx = y·(dy - Σ dy·y).
//
//   forward    2·n·w bytes   5·n FLOPs (exp counts as one)
//   backward   3·n·w bytes   4·n FLOPs
//
// A row stays in registers up to kKeptVectors 16-byte vectors of each of 1024 threads (32768 bf16,
// 16384 fp32). What is longer is read twice; the bytes above then count one of the two.
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

void launch_softmax(const Call& call);
void launch_softmax_backward(const Call& call);

}  // namespace memest::kernels
