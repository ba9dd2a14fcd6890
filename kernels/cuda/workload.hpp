// A kernel at a shape as the device runs it: what it is checked by and what it is timed by.
#pragma once

#include <functional>
#include <span>

#include "kernels/call.hpp"
#include "kernels/description.hpp"

namespace memest::kernels {

struct Workload {
  Description description;
  /// Makes inputs that are more than random numbers, once for each copy of the operands: what a
  /// forward leaves for its backward. May be empty.
  std::function<void(void* const* operands, Stream stream)> prepare{};
  /// Gives the stream one call on operands in the order of the description.
  std::function<void(void* const* operands, Stream stream)> enqueue{};
  /// The computation in double, on the host.
  std::function<void(double* const* operands)> reference{};
  /// How far results are from it.
  double (*error)(std::span<const double>, std::span<const double>) = largest_error;
  /// Difference allowed beyond the rounding of a result's type: of operands in TF32, say.
  double least_tolerance = 0;
};

Workload stream_workload(const StreamShape& shape);

}  // namespace memest::kernels
