// Which device each part of a recorded process is of.
#pragma once

#include <filesystem>
#include <vector>

#include "memest/report/record_report.hpp"

namespace memest {

/// Says of each part of a process that used several devices which of them it is. `traces[i]` is the
/// file of `processes[i]`, PROCESS.DEVICE.trace; those of one process stand side by side.
void name_devices(const std::vector<std::filesystem::path>& traces,
                  std::vector<ProcessRun>& processes);

}  // namespace memest
