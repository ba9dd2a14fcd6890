// The tensors that an optimizer's state is for one parameter, and their sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memest/graph/parameters.hpp"
#include "memest/spec/optimizer.hpp"

namespace memest {

inline constexpr std::int64_t kRemainderBytes = 2;  ///< an element of StateShape::remainders

constexpr std::int64_t round_up_quotient(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// Whether the parameter has the state.
bool takes_part(const OptimizerState& state, const ParameterTensor& tensor);

/// Bytes of the tensors that `state` is for one parameter; `bytes` is the size of an element where
/// the state has one.
std::vector<std::int64_t> tensors_of(const OptimizerState& state, const ParameterTensor& tensor,
                                     std::int64_t bytes);

/// How many of those, from the first, a paged state keeps in managed memory, of which PyTorch's
/// allocator does not know: small ones and scales are on the device as any other.
std::size_t managed_tensors(const OptimizerState& state, const ParameterTensor& tensor);

/// The values that 8-bit codes stand for, once for all parameters.
inline constexpr std::int64_t kMapOfCodes = 1024;
/// Whether `tensor`'s state is codes, which need them.
bool is_coded(const OptimizerState& state, const ParameterTensor& tensor);

/// "fp32 elements over all tensors".
std::string rule_of_state(const OptimizerState& state, DType type);

}  // namespace memest
