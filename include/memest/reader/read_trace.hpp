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

/// The file of `memest record`, which is a trace with more in its head; as read_trace.
Checked<Recording> read_recording(const std::string& path);

/// As above, from text in memory.
Checked<Recording> read_recording(const std::shared_ptr<const SourceText>& source);
Checked<AllocatorTrace> read_trace(const std::shared_ptr<const SourceText>& source);

/// PYTORCH_CUDA_ALLOC_CONF's text as somebody gives it, who is named by `source`.
Checked<AllocatorSettings> read_allocator_conf(const std::string& source, const std::string& text);

}  // namespace memest
