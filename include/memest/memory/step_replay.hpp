// A timeline run through the caching allocator: what torch.cuda's statistics will say, phase by
// phase, what is alive at the peak, and whether it runs at all under a capacity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/memory/caching_allocator.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/allocator.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// The device below the allocator.
struct ReplayDevice {
  Bytes total;                 ///< of the whole device
  Bytes available;             ///< of it, what context and libraries leave
  std::optional<Bytes> limit;  ///< PyTorch's memory fraction, in bytes; absent: none
};

/// A phase of a step, over all its micro-steps.
struct PhaseMemory {
  Phase phase = Phase::model;
  std::uint16_t step = 0;
  Bytes peak;      ///< most allocated within
  Bytes end;       ///< allocated after it (after the last micro-step's)
  Bytes reserved;  ///< reserved after it
};

inline constexpr std::size_t kHoldings = static_cast<std::size_t>(Holding::workspaces) + 1;

struct AliveStorage {
  StorageId storage = 0;
  Bytes block;  ///< what it takes of the allocator: rounded up, and what was not cut off
};

/// The most that was allocated, and when. The blocks that are alive add up to `allocated`, and so
/// do the sums by holding.
struct PeakMoment {
  std::uint32_t event = 0;  ///< the allocation that makes it
  Bytes allocated;
  Bytes reserved;
  std::array<Bytes, kHoldings> by_holding{};
  std::vector<AliveStorage> alive;  ///< the largest first
};

/// Where the run ends, because nothing fits and nothing can be given back.
struct OutOfMemory {
  std::uint32_t event = 0;  ///< the allocation that failed
  Bytes requested;
  Bytes allocated;
  Bytes reserved;
  Bytes free_in_segments;  ///< reserved and not allocated: what fragmentation keeps
  Bytes largest_free;      ///< the largest free block among it
};

struct StepReplay {
  /// Statistics at the end; peaks are of the whole run, those of free blocks of what was followed.
  AllocatorStatistics statistics;
  std::vector<PhaseMemory> phases;
  PeakMoment peak;
  std::optional<OutOfMemory> out_of_memory;
  std::vector<Bytes> blocks;  ///< by storage: what it took of the allocator
};

/// Runs the timeline to its end, or to the first allocation that fails.
StepReplay replay_steps(const Timeline& timeline, const AllocatorSettings& settings,
                        const ReplayDevice& device);

}  // namespace memest
