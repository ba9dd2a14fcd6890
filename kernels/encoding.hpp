// Arrays of a type as a device holds them, from and to doubles.
#pragma once

#include <span>
#include <vector>

#include "memest/spec/dtype.hpp"

namespace memest::kernels {

/// Rounded to the nearest; NaN becomes NaN, or in a type of whole numbers its largest.
std::vector<unsigned char> encode(DType dtype, std::span<const double> values);
std::vector<double> decode(DType dtype, std::span<const unsigned char> bytes);

}  // namespace memest::kernels
