// The sizes at which a recording for many sizes was played, and how they lie to those recorded.
#pragma once

#include <string>

#include "memest/report/replay_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// "run.memrec", "run.memrec at batch=8 seq=1024".
std::string played_name(const PlayedRun& run);

/// "batch 23 is the largest that fits: 24 does not".
std::string largest_sentence(const PlayedRun& run, bool fits);

/// Whether a value lies outside of what was recorded.
bool is_extrapolated(const PlayedPoint& at);

/// "Recorded were batch 2 to 5 and seq 512 to 896 in multiples of 128: batch 8 is extrapolated."
std::string range_sentence(const PlayedPoint& at);

/// Adds the keys that a played trace with sizes of its own has not.
void add_point(const PlayedPoint& at, Json& json);

}  // namespace memest
