// A program at a few sizes becomes one recording for all sizes.
#pragma once

#include "cli/command.hpp"
#include "cli/record/null_device.hpp"

namespace memest {

/// Runs the program of the arguments at the points of --vary.
Outcome run_varied(const Arguments& arguments, const NullDevice& device,
                   const Surroundings& surroundings);

}  // namespace memest
