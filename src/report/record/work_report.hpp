// The time of a recorded step, in words and as JSON.
#pragma once

#include <string>
#include <vector>

#include "memest/report/record_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// Empty where no work was recorded.
std::vector<Part> time_parts(const ProcessRun& process, const std::string& gpu);

/// Writes "time"; nothing where no work was recorded.
void put_time(const ProcessRun& process, Json& json);

}  // namespace memest
