// A recorded program as JSON, and what both forms of its answer say.
#pragma once

#include <optional>
#include <string>

#include "memest/report/record_report.hpp"

namespace memest {

/// The most that was in use on the device, with the context; nothing where the process did not come
/// to its end.
std::optional<Bytes> device_peak_of(const ProgramRun& program, const ProcessRun& process);

std::string recording_json(const ProgramRun& program, const Question& question);

}  // namespace memest
