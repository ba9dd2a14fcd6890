// The shape at which a kernel is compared with its reference before it is timed at another: of the
// same kind, small enough for the reference's loops, and odd where sizes may be.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memest/kernels/backend.hpp"

namespace memest::kernels {

/// As many columns, because they decide how a row kernel runs, but for an embedding, whose table
/// would be large; few rows.
StreamShape check_shape(const StreamShape& shape);
/// At most 144 of m, n and k each, and two batches; whole rows of 16 bytes in every type.
MatmulShape check_shape(const MatmulShape& shape);
/// At most 256 positions, two of the tiles that kernels take; two sequences; and two heads of keys
/// for two heads of queries each.
AttentionShape check_shape(const AttentionShape& shape);

/// Kernels that were compared with their references, and agreed.
class CheckedKernels {
 public:
  /// The first result of `check` that differs, in words; nothing where none does. A small shape
  /// that has passed is not checked again.
  std::optional<std::string> difference(const KernelShape& small,
                                        const std::function<std::vector<KernelCheck>()>& check);

 private:
  std::set<KernelShape> passed_;
};

}  // namespace memest::kernels
