// Whether a played recording fits, and what its answer rests on.
#pragma once

#include <string>
#include <vector>

#include "memest/report/page.hpp"
#include "memest/report/replay_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// "✓", "✗", or "?" where it is not known.
std::string fit_marker(const PlayedRun& run);
Tone fit_tone(const PlayedRun& run);
/// "yes", "no", or nothing where it is not known.
std::string fit_word(const PlayedRun& run);
/// `fits`, null where it is not known.
void put_fits(const PlayedRun& run, Json& json);

/// Why it is not known whether it fits, the rank that it is of, and the values that the program
/// read from a device that computes nothing.
std::vector<Part> recorded_caveats(const PlayedRun& run);

}  // namespace memest
