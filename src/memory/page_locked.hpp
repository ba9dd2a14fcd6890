// Page-locked buffers as PyTorch's allocator of them hands them out.
#pragma once

#include <cstdint>

namespace memest {

/// ATen/core/CachingHostAllocator.h asks the driver for powers of two, and keeps what is freed: a
/// buffer of 5 GiB takes 8. Throws OverflowError.
std::int64_t power_of_two_from(std::int64_t bytes);

}  // namespace memest
