// A recording, or one for many sizes at some of them, played on a device.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/exit_code.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/recorded/recorded_job.hpp"

namespace memest {

/// The memory and the settings that requests are played under; without them the trace's own.
struct PlayedUnder {
  std::optional<Bytes> memory;      ///< of the whole device
  std::optional<Bytes> reservable;  ///< of it, what the allocator may have; no more than a GPU has
  std::optional<AllocatorSettings> settings;
  std::string conf;                  ///< the settings as PYTORCH_ALLOC_CONF has them
  std::optional<Hardware> hardware;  ///< its GPU's memory where none is given, and its context
};

/// The sizes at which a recording for many is asked about.
struct AskedSizes {
  std::vector<std::string> at;  ///< "batch=8"
  std::string largest;          ///< the number whose largest value that fits is asked for
};

/// One run; of a family with `largest` the largest value that fits, and the next. Mistakes are the
/// sizes', which a recording of its own has no use for.
Checked<std::vector<PlayedRun>> played_runs(const std::variant<Recording, RecordedFamily>& recorded,
                                            const PlayedUnder& under, const AskedSizes& sizes);

/// One GPU of a type, at the price that is listed.
Hardware hardware_of(GpuSpec gpu);

/// Exit code 4 where a run that failed when it was recorded is granted until there.
ExitCode code_of(const PlayedRun& run);

/// The memory of the device on which a job was recorded, the context in it.
Bytes recorded_memory(const RecordedJob& job);

/// The memory, settings and GPU of a recorded job.
PlayedUnder under_of(const RecordedJob& job);

}  // namespace memest
