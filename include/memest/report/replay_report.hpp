// The answer of `memest replay`: what was compared of each trace, and where model and record part;
// with --memory or --conf what its requests come to under them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "memest/memory/play_requests.hpp"
#include "memest/memory/recorded/family_at.hpp"
#include "memest/memory/replay.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/recorded/family.hpp"
#include "memest/time/recorded_time.hpp"

namespace memest {

struct ReplayedTrace {
  AllocatorTrace trace;
  ReplayResult result;
};

Report report_replay(const std::vector<ReplayedTrace>& traces, const Question& question);

/// Where the sizes of a played recording come from, which has a formula for each.
struct PlayedPoint {
  std::vector<VariedSize> varied;
  SizePoint point;
  /// The varied number whose largest value that fits was looked for, by its index.
  std::optional<std::size_t> largest = {};
  StepSlack slack = {};  ///< by which requests may be less than what was played
  bool is_next = false;  ///< the value behind it, which does not fit
};

struct PlayedRun {
  AllocatorTrace trace;
  std::string settings;  ///< as PYTORCH_CUDA_ALLOC_CONF has them; "default" for none
  Bytes available;       ///< of the device, for the allocator
  PlayedTrace played;
  std::optional<PlayedPoint> at = {};  ///< absent: the trace has sizes of its own
  std::string gpu = {};                ///< "NVIDIA A100 SXM4 80GB"; empty where none was asked for
  RecordedStepTime time = {};          ///< on it
  std::optional<DollarsPerHour> price = {};
  std::string rank = {};  ///< "3 of 8"; empty where the program is no rank of several
  bool whole = true;      ///< the program came to its end where it was recorded
  std::vector<DeviceRead> reads = {};
  bool masks_keep_all = false;
};

/// Whether the device grants all that the program asks for; nothing where it failed when it was
/// recorded, and until there all is granted.
std::optional<bool> fits(const PlayedRun& run);

Report report_play(const std::vector<PlayedRun>& runs, const Question& question);

}  // namespace memest
