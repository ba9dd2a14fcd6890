// Dropout with a kept mask of one byte an element, as PyTorch's native_dropout: element i stays,
// times 1/(1 - p), where the generator's i-th number is at least p; dx = dy·mask/(1 - p).
//
//   forward, backward   n·(2·w + 1) bytes   n FLOPs (the generator's integers are not counted)
#pragma once

#include <cstdint>

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr float kDropped = 0.1F;  ///< p
inline constexpr std::uint64_t kDropoutSeed = 0x853C49E6748FEA9B;

void launch_dropout(const Call& call);
void launch_dropout_backward(const Call& call);

}  // namespace memest::kernels
