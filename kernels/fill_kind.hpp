// The values that a kernel's inputs are filled with.
#pragma once

#include <cstdint>

namespace memest::kernels {

/// Constants would flatter a matrix unit's power and hide mistakes.
enum class Fill : std::uint8_t {
  normal,    ///< mean 0, deviation 1
  positive,  ///< the absolute values of normal ones
  index      ///< whole numbers in [0, limit), each as likely
};

}  // namespace memest::kernels
