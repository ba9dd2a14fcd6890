// How many blocks of a kernel an SM holds at once, for the runtime and for the driver.
#pragma once

#include <cstddef>

namespace memest::record {

/// Registers are not known and do not count: at least 1.
int resident_blocks(int threads, std::size_t shared_bytes);

}  // namespace memest::record
