// A run that was recorded elsewhere, in whichever form: PyTorch's memory snapshot, an allocator
// trace, a log of nvidia-smi.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/allocator_trace.hpp"
#include "memest/spec/gpu/usage_log.hpp"

namespace memest {

using RecordedRun = std::variant<AllocatorTrace, UsageLog>;

/// The run in a file of text or gzip; nothing where its first bytes are no run's, as those of a
/// spec. A form that is known by name and not read, and a damaged file, are mistakes. Throws
/// EnvironmentError for a file that cannot be opened.
Checked<std::optional<RecordedRun>> find_run(const std::string& path);

/// As above, from text in memory.
Checked<std::optional<RecordedRun>> find_run(const std::shared_ptr<const SourceText>& source);

}  // namespace memest
