// Arrays read and written in order, BabelStream's kernels and two halves of a copy. With n elements
// of w bytes:
//
//   op     computes          bytes             FLOPs
//   read   y[i] = Σ x[j]     n·w + 4·n/8192    n          j in the i-th kReadSegment elements
//   write  y = kWritten      n·w               0
//   copy   y = x             2·n·w             0
//   scale  y = a·x           2·n·w             n
//   add    z = x + y         3·n·w             n
//   triad  z = x + a·y       3·n·w             2·n
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr float kStreamFactor = 0.4F;        ///< a, BabelStream's scalar
inline constexpr std::int64_t kReadSegment = 8192;  ///< elements that become one sum
inline constexpr float kWritten = 1.25F;            ///< a value that every type holds exactly

void launch_read(const Call& call);
void launch_write(const Call& call);
void launch_copy(const Call& call);
void launch_scale(const Call& call);
void launch_add(const Call& call);
void launch_triad(const Call& call);

}  // namespace memest::kernels
