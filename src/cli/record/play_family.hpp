// A recording for many sizes, played at one of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/report/replay_report.hpp"
#include "memest/spec/gpu/gpu.hpp"

namespace memest {

/// The memory and the settings that requests are played under; without them the trace's own.
struct PlayedUnder {
  std::optional<Bytes> memory;
  std::optional<AllocatorSettings> settings;
  std::optional<GpuSpec> gpu;  ///< its memory where `memory` is absent, and its context
};

/// The trace's requests under them.
PlayedRun played(AllocatorTrace trace, const PlayedUnder& under, const std::string& conf);
/// The device that they name in place of the trace's own.
void move_to_device(const PlayedUnder& under, AllocatorTrace& trace);

/// The family at the point of --at; with --largest at the largest value that fits and at the next.
Checked<std::vector<PlayedRun>> play_family(const RecordedFamily& family, const PlayedUnder& under,
                                            const Arguments& arguments);

}  // namespace memest
