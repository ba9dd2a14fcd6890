// Commands that take a spec, asked about a recorded run in its place: what `memest record` wrote,
// or a spec that names it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/report/check_report.hpp"
#include "memest/spec/recorded/recorded_job.hpp"

namespace memest {

/// The recorded run that `files` name under the flags; nothing where they name none.
Checked<std::optional<RecordedJob>> find_recorded(const Arguments& arguments,
                                                  const std::vector<std::string>& files);

// Each answers for a recorded run; nothing where the words of the command line name none.
std::optional<Outcome> estimate_recorded(const Arguments& arguments,
                                         const Surroundings& surroundings);
std::optional<Outcome> roofline_recorded(const Arguments& arguments,
                                         const Surroundings& surroundings);
std::optional<Outcome> timeline_recorded(const Arguments& arguments,
                                         const Surroundings& surroundings);

/// A recorded run held to its budget, with what a lock keeps of it.
CheckedFile check_recorded(const std::string& file, const RecordedJob& job);

}  // namespace memest
