// The answer of `memest record`: what a program took on a device that computes nothing, when, and
// which of its lines asked for it; and the time of a step.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/recorded_use.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/allocator_trace.hpp"
#include "memest/time/recorded_time.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// A process of the program that used a GPU.
struct ProcessRun {
  Recording recording;
  RecordedPeaks peaks;
  RecordedMoment peak;
  std::optional<RecordedFailure> failure;
  std::vector<PlaceGrowth> growing;
  /// The time of the step whose work was recorded, or why it has none; nothing where no work was.
  std::variant<std::monostate, RecordedTime, Unavailable> time;
  std::string file;  ///< its recording; empty where none was asked for
};

struct ProgramRun {
  std::string command;
  std::string gpu;    ///< "H100 SXM5 80GB"
  Bytes capacity;     ///< of the device
  Bytes context;      ///< of it, what the CUDA context and modules hold
  int exit_code = 0;  ///< the program's; 128 and the signal's number where one ended it
  std::vector<ProcessRun> processes;
  std::vector<std::string> unanswered;  ///< functions that the null device does not know
  std::vector<std::string> taken_as_0;  ///< "cuDNN's workspaces": sizes that it does not know
};

/// Whether an allocation failed and ended the program.
bool ran_out(const ProgramRun& program);
/// Whether the program came to its end; it fits where it did, and is not known to where it failed
/// for a reason of its own.
bool came_to_its_end(const ProgramRun& program);

Report report_recording(const ProgramRun& program, const Question& question);

}  // namespace memest
