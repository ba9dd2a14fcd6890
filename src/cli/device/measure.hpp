// `memest calibrate` without --from: measures a device and fits its profile.
#pragma once

#include "cli/command.hpp"

namespace memest {

Outcome run_measurement(const Arguments& arguments, const Surroundings& surroundings);

/// ISO 8601, UTC.
std::string today();

}  // namespace memest
