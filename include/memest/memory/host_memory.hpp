// What a rank keeps in the host's memory where weights, gradients or the optimizer are offloaded:
// page-locked buffers, which PyTorch's allocator rounds up to powers of two, and ordinary ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// Buffers that serve one purpose.
struct HostTerm {
  std::string name;
  Bytes bytes;           ///< that tensors take
  Bytes pinned;          ///< of page-locked memory, rounded up buffer by buffer; 0 where ordinary
  bool on_nvme = false;  ///< not in the host's memory but on its drives
  std::string formula;   ///< in words and letters
  std::string source;

  /// What the host gives for it.
  [[nodiscard]] Bytes taken() const { return pinned == Bytes() ? bytes : pinned; }
};

/// Of one rank, beside what any training process takes on the host.
struct HostMemory {
  std::vector<HostTerm> terms;

  [[nodiscard]] Bytes taken() const;
  [[nodiscard]] Bytes pinned() const;
  /// On the node's drives.
  [[nodiscard]] Bytes on_nvme() const;
};

/// Empty where nothing is offloaded. `job` trains. Throws OverflowError.
std::optional<HostMemory> host_memory_of(const Graph& graph, const Job& job);

}  // namespace memest
