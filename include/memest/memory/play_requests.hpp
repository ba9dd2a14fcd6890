// A recorded trace's requests, played through the allocator under other settings or another memory.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "memest/memory/caching_allocator.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

struct PlayedTrace {
  AllocatorStatistics end;  ///< with the peaks of the whole run, also where the program resets them
  /// The event whose request fails, behind which nothing was played.
  std::optional<std::size_t> failed;
};

/// Plays the events until `last`, that one too. A request that failed in the record and is granted
/// here is freed at once: what the program would have done with it is not known.
PlayedTrace play_requests(const AllocatorTrace& trace, const AllocatorSettings& settings,
                          Bytes available, std::size_t last);
/// All of them, telling the statistics behind each event's index.
using PlayedEvent = std::function<void(std::size_t, const AllocatorStatistics&)>;
PlayedTrace play_requests(const AllocatorTrace& trace, const AllocatorSettings& settings,
                          Bytes available, const PlayedEvent& behind);
/// All of them.
PlayedTrace play_requests(const AllocatorTrace& trace, const AllocatorSettings& settings,
                          Bytes available);

}  // namespace memest
