// The launcher of each streaming kernel, by op and pass.
#pragma once

#include "kernels/call.hpp"
#include "memest/spec/gpu/kernel_shape.hpp"

namespace memest::kernels {

using Launcher = void (*)(const Call&);

/// Null where no kernel runs the shape: its op and pass, its type, or a row too long for the
/// registers of a block.
Launcher find_launcher(const StreamShape& shape);

}  // namespace memest::kernels
