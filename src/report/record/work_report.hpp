// The time of a recorded step, in words and as JSON.
#pragma once

#include <string>
#include <vector>

#include "memest/report/page.hpp"
#include "memest/time/recorded_time.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// Empty where no work was recorded.
std::vector<Part> time_parts(const RecordedStepTime& time, const std::string& gpu);

/// Writes how often work was asked for, its FLOPs, bytes and seconds.
void put_amounts(const RecordedWorkTime& time, Json& json);

/// Writes "time"; nothing where no work was recorded.
void put_time(const RecordedStepTime& time, Json& json);

}  // namespace memest
