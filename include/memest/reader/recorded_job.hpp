// Recorded runs in the place of a spec: what `memest record` wrote, or a spec with the key
// `recording` that names it (docs/commands/record.md).
#pragma once

#include <optional>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/recorded/recorded_job.hpp"

namespace memest {

/// The recorded run that a request names; nothing where it names none, and read_job() is to be
/// asked. Throws EnvironmentError for a file that cannot be opened.
Checked<std::optional<RecordedJob>> find_recorded_job(const ReadRequest& request);

}  // namespace memest
