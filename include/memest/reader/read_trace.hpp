// Text becomes an allocator trace (docs/commands/replay.md has the format).
#pragma once

#include <memory>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// The trace in a file of text or gzip, or every mistake in it; also of PyTorch's memory snapshot,
/// where it has the whole history. Throws EnvironmentError for a file that cannot be opened.
Checked<AllocatorTrace> read_trace(const std::string& path);

/// As above, from text in memory.
Checked<AllocatorTrace> read_trace(const std::shared_ptr<const SourceText>& source);

}  // namespace memest
