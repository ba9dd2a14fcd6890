// An operation's pass step by step, where it makes and drops more than its results.
#pragma once

#include <cstdint>

namespace memest {

enum class StepKind : std::uint8_t {
  allocate,
  free,
  launch,
  product,    ///< a library multiplies: it asks for the op's workspace
  drop_saved  ///< the op has read it for the last time
};

/// The call of PyTorch's that a step belongs to: a selective checkpoint's list names calls.
enum class StepOf : std::uint8_t {
  result,    ///< makes the op's results
  absolute,  ///< aten.abs
  maximum,   ///< aten.max
  other
};

/// One allocation, free or launch of an op's pass.
struct Step {
  StepKind kind = StepKind::allocate;
  /// Index into Op::backward_tensors, Op::backward_launches, or Op::saved.
  std::uint8_t tensor = 0;
  StepOf of = StepOf::result;

  friend bool operator==(const Step&, const Step&) = default;
};

}  // namespace memest
