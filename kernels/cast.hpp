// A cast from one type to another. The shape's type names what is cast:
//
//   fp32   x fp32 → y bf16   6·n bytes
//   bf16   x bf16 → y fp32   6·n bytes
//   fp8    x bf16 → y fp8 (e4m3, finite, saturating) with a scale given beforehand   3·n bytes, n
//   FLOPs
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr float kFp8Scale = 16.0F;  ///< of y = fp8(scale · x): normal data fill the range
inline constexpr float kFp8Largest = 448;  ///< of e4m3

void launch_cast(const Call& call);

/// The scale of a tensor whose largest magnitude is given: with it that becomes e4m3's largest.
constexpr float fp8_scale(float largest) { return largest > 0 ? kFp8Largest / largest : 1; }

/// A cast to fp8 with a scale that fits: x bf16 → y fp8 = fp8(scale · x), in three kernels. x is
/// read twice, 5·n bytes. Operands: x, y, and one fp32 each for the largest magnitude and for
/// 1/scale, by which a product of y is multiplied.
void launch_fitting_cast(const Call& call);

}  // namespace memest::kernels
