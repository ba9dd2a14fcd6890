// The memory that a rank keeps on the host: weights, gradients, the optimizer or saved tensors
// where they are offloaded, and what its data loader holds. Page-locked buffers, which PyTorch's
// allocator rounds up to powers of two, and ordinary ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"
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
  bool of_node = false;  ///< once for all ranks of a node

  /// Bytes that the host gives for it.
  [[nodiscard]] Bytes taken() const { return pinned == Bytes() ? bytes : pinned; }
};

/// One rank's memory on the host, beside what any training process takes there.
struct HostMemory {
  std::vector<HostTerm> terms;

  [[nodiscard]] Bytes taken() const;
  /// The ranks of a node have this together, beside that.
  [[nodiscard]] Bytes shared() const;
  [[nodiscard]] Bytes pinned() const;
  /// On the node's drives.
  [[nodiscard]] Bytes on_nvme() const;
};

/// Bytes that a training process takes on its host beside that: Python, PyTorch and CUDA's
/// libraries. 1,873 MiB behind a first convolution (pytorch/pytorch#12873), rounded up; unverified.
inline constexpr Bytes kHostProcess{std::int64_t{2} << 30};

/// The share of the rented memory that the machine keeps: firmware, hypervisor, kernel. As much as
/// karpenter-provider-aws takes off every instance type (VM_MEMORY_OVERHEAD_PERCENT).
inline constexpr double kHostKept = 0.075;

/// HostCapacity::source of what the spec says.
inline constexpr std::string_view kWrittenHost = "hardware.host_memory";

/// The memory of a node, or of a node's share that is rented with fewer GPUs than it has.
struct HostCapacity {
  Bytes bytes;
  Provenance provenance = Provenance::unverified;
  std::string source;
};
/// The host memory of a node in the spec; else what nodes with such GPUs are rented with, by the
/// GPUs of the job that share one; else, where nobody says, as much as the GPUs have.
HostCapacity host_capacity_of(const Hardware& hardware);

/// The ranks' memory on a host, held against it.
struct HostNeed {
  Bytes of_rank;           ///< HostMemory::taken()
  std::int64_t ranks = 1;  ///< of the job on one node
  HostCapacity capacity;
  Bytes shared = {};  ///< HostMemory::shared()

  /// Bytes of the node's ranks, with the processes themselves.
  [[nodiscard]] Bytes of_node() const;
  /// Too close to call where only the share that the machine keeps is missing.
  [[nodiscard]] Verdict verdict() const;
};
/// `of_rank` bytes on every rank of the hardware's GPUs. Throws OverflowError.
HostNeed host_need_of(Bytes of_rank, const Hardware& hardware);
/// As above, and what `job`, which trains, shares on a node.
HostNeed host_need_of(Bytes of_rank, const Job& job, const Hardware& hardware);

/// Whether a data loader of a known size takes memory of `job`'s host.
bool loads_into_host(const Job& job);
/// Whether that, or an offload, does.
bool takes_host_memory(const Job& job);

/// Empty where it does not. `job` trains. Throws OverflowError.
std::optional<HostMemory> host_memory_of(const Graph& graph, const Job& job);

}  // namespace memest
