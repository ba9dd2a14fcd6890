// The answer of `memest replay`: what was compared of each trace, and where model and record part.
#pragma once

#include <vector>

#include "memest/memory/replay.hpp"
#include "memest/report/report.hpp"

namespace memest {

struct ReplayedTrace {
  AllocatorTrace trace;
  ReplayResult result;
};

Report report_replay(const std::vector<ReplayedTrace>& traces, const Question& question);

}  // namespace memest
