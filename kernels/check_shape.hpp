// The shape at which a kernel is compared with its reference before it is timed at another: of the
// same kind, small enough for the reference's loops, and odd where sizes may be.
#pragma once

#include <vector>

#include "memest/kernels/backend.hpp"

namespace memest::kernels {

/// As many columns, because they decide how a row kernel runs, but for an embedding, whose table
/// would be large; few rows.
StreamShape check_shape(const StreamShape& shape);
/// At most 136 of m, n and k each, and two batches; multiples of eight, which 16-byte rows need.
MatmulShape check_shape(const MatmulShape& shape);
/// At most 256 positions, two of the tiles that kernels take; two sequences; and two heads of keys
/// for two heads of queries each.
AttentionShape check_shape(const AttentionShape& shape);

/// Throws EnvironmentError at the first that failed: what would be timed computes something else.
void require_passed(const std::vector<KernelCheck>& checks);

}  // namespace memest::kernels
