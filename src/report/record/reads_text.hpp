// The values that a recorded program read back from the device, in words.
#pragma once

#include <string>
#include <vector>

#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// The assumption of --masks-keep-all.
inline constexpr const char* kMasksText =
    "By --masks-keep-all every mask that was counted or read kept all of its elements.";

/// The values that the program may have branched on, each place once with the value that it was
/// told most often; the most read first. Empty where nothing was read.
std::string assumptions_text(const std::vector<DeviceRead>& reads);

}  // namespace memest
