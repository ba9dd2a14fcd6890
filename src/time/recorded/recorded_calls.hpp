// Each piece of a recorded step's work as the call that a law prices, with its FLOPs and traffic.
#pragma once

#include <optional>
#include <vector>

#include "memest/spec/gpu/kernel_shape.hpp"
#include "memest/spec/recorded/recorded_work.hpp"
#include "memest/time/recorded_time.hpp"

namespace memest {

struct RecordedCall {
  WorkClass kind = WorkClass::unknown;
  std::optional<KernelShape> shape = {};  ///< none of messages and of what is not known
  Flops flops = {};
  Bytes bytes = {};
  /// Kernels of the operator that share the call: each takes an equal part.
  std::int64_t kernels = 1;
};

/// By item; of those that are no work a call without a shape.
std::vector<RecordedCall> calls_of(const RecordedWork& work);

}  // namespace memest
