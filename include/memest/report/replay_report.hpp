// The answer of `memest replay`: what was compared of each trace, and where model and record part;
// with --memory or --conf what its requests come to under them.
#pragma once

#include <string>
#include <vector>

#include "memest/memory/play_requests.hpp"
#include "memest/memory/replay.hpp"
#include "memest/report/report.hpp"

namespace memest {

struct ReplayedTrace {
  AllocatorTrace trace;
  ReplayResult result;
};

Report report_replay(const std::vector<ReplayedTrace>& traces, const Question& question);

struct PlayedRun {
  AllocatorTrace trace;
  std::string settings;  ///< as PYTORCH_CUDA_ALLOC_CONF has them; "default" for none
  Bytes available;       ///< of the device, for the allocator
  PlayedTrace played;
};

Report report_play(const std::vector<PlayedRun>& runs, const Question& question);

}  // namespace memest
