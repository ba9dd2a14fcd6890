// What of PyTorch a thread runs: operators and nodes of the backward, which PyTorch tells as ranges
// of NVTX, and forwards of the program's modules, which the Python hook tells.
#pragma once

#include <cstdint>
#include <optional>

namespace memest::record {

struct Range {
  std::uint64_t handle = 0;  ///< the RecordFunction's; 0 of a range of the program's own
  /// Of a forward operator in grad mode the number that the next node gets, of a node its own.
  std::optional<std::uint64_t> sequence = {};
  bool evaluates = false;  ///< it is autograd's around a node of the backward
};
void enter_range(const Range& range);
void leave_range();

/// Modules are numbered from 1 on by the Python hook.
void enter_module(std::uint32_t module);
void leave_module();

/// The innermost operator of this thread, by its handle; 0 where none is told.
std::uint64_t current_operator();
/// The module whose forward this thread runs, or whose forward made the node that it runs; 0 where
/// none is told, as of what a node computes anew.
std::uint32_t current_module();

/// Ranges that this thread has entered: without a new one no tensor was made.
std::uint64_t entered_ranges();

/// Forgets which module made which node.
void forget_nodes();

}  // namespace memest::record
