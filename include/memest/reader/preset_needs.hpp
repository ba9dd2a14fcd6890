// The hardware that a preset trains on where one GPU of the default type is too small: the files in
// configs/presets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace memest {

struct PresetNeed {
  std::int64_t gpus = 1;  ///< of kDefaultGpu
  std::string flags;      ///< of `memest estimate`, as a shell reads them
};

/// Empty for a preset that trains as it stands, for one whose memory is not answered, and for what
/// is no preset.
std::optional<PresetNeed> find_preset_need(const std::string& name);

}  // namespace memest
