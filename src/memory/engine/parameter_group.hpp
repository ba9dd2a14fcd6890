// The trainable tensors that one step of the optimizer takes together.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/model.hpp"

namespace memest {

/// A trainable tensor, as the optimizer sees it.
struct SteppedTensor {
  std::uint32_t parameter = 0;  ///< index into Timeline::parameters
  std::int64_t elements = 0;
  const ParameterTensor* row = nullptr;
};

/// A parameter group, which a step takes on its own.
using ParameterGroup = std::vector<SteppedTensor>;

}  // namespace memest
