// PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot writes it, read as an allocator
// trace.
#pragma once

#include <memory>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// Whether a file begins as a pickle of protocol 2 or later does.
bool is_pickle(std::string_view text);

/// The history of the one GPU that the snapshot has one of. An event's line is its entry, from 1
/// on; the device's memory is as much as was reserved and free where it ran out, else without end.
Checked<AllocatorTrace> read_snapshot(const std::shared_ptr<const SourceText>& source);

}  // namespace memest
