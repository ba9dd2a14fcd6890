// The processor that this program runs on.
#pragma once

#include "memest/kernels/backend.hpp"

namespace memest::kernels {

DeviceFacts host_facts();
Bytes host_free_memory();

}  // namespace memest::kernels
