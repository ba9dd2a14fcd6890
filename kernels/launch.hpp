// Kernels that compute nothing: an empty one, whose time is the launch's, and one that keeps a
// multiprocessor busy for a known time, by which the ruler is tested.
#pragma once

#include <cstdint>

#include "kernels/call.hpp"

namespace memest::kernels {

void launch_empty(Stream stream);
/// By the device's clock of nanoseconds, which ticks once a microsecond or finer.
void launch_spin(std::int64_t nanoseconds, Stream stream);

}  // namespace memest::kernels
