// The answer of `memest record`: what a program took on a device that computes nothing, when, and
// which of its lines asked for it; and the time of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/memory/recorded/kept_for_backward.hpp"
#include "memest/memory/recorded_peaks.hpp"
#include "memest/memory/recorded_use.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/allocator_trace.hpp"
#include "memest/time/recorded_time.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One of several devices that a process used.
struct UsedDevice {
  std::int64_t index = 0;   ///< by which the process knows it: 0 is cuda:0
  std::int64_t number = 1;  ///< among those that it used, from 1 on
  std::int64_t of = 1;      ///< how many it used

  [[nodiscard]] std::string text() const {
    return std::to_string(number) + " of " + std::to_string(of);
  }
};

/// A process of the program that used a GPU, or what it took of one of several.
struct ProcessRun {
  Recording recording;
  RecordedPeaks peaks;
  RecordedMoment peak;
  std::optional<RecordedFailure> failure;
  std::vector<PlaceGrowth> growing;
  KeptForBackward kept;
  RecordedStepTime time;
  std::string file;                  ///< its recording; empty where none was asked for
  std::optional<UsedDevice> device;  ///< absent where it used one alone
};

struct ProgramRun {
  std::string command;
  std::string gpu;              ///< "H100 SXM5 80GB"
  Bytes capacity;               ///< of the device
  Bytes context;                ///< of it, what the CUDA context and modules hold
  bool masks_keep_all = false;  ///< --masks-keep-all
  int exit_code = 0;            ///< the program's; 128 and the signal's number where one ended it
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
