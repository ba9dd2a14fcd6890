// Random inputs, the same in every run.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/description.hpp"

namespace memest::kernels {

/// `values` as the operand's fill asks; the seed picks one of many arrays.
template <class T>
void fill(const Operand& operand, std::uint64_t seed, std::span<T> values);

extern template void fill<float>(const Operand&, std::uint64_t, std::span<float>);
extern template void fill<double>(const Operand&, std::uint64_t, std::span<double>);

}  // namespace memest::kernels
