#include "memest/memory/play_requests.hpp"

#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/memory/device_memory.hpp"

namespace memest {
namespace {

class RequestPlayer {
 public:
  RequestPlayer(const AllocatorTrace& trace, const AllocatorSettings& settings, Bytes available)
      : device_(trace.device_memory, available),
        allocator_(settings, std::nullopt, device_),
        blocks_(static_cast<std::size_t>(trace.allocations), BlockId::none) {}

  /// False where a request fails.
  bool act(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEventKind::allocate:
      case TraceEventKind::out_of_memory:
        return allocate(event);
      case TraceEventKind::free:
        allocator_.free(block_of(event));
        return true;
      case TraceEventKind::free_when_done:
        allocator_.free_when_done(block_of(event));
        return true;
      case TraceEventKind::empty_cache:
        allocator_.empty_cache();
        return true;
      case TraceEventKind::reset_peaks:  // the peaks are those of the whole run
      case TraceEventKind::segment_obtained:
      case TraceEventKind::segment_returned:
      case TraceEventKind::mapped:
      case TraceEventKind::unmapped:
      case TraceEventKind::owner:
      case TraceEventKind::marker:
        return true;
    }
    unreachable("a kind of event beyond the enum");
  }
  [[nodiscard]] const AllocatorStatistics& statistics() const { return allocator_.statistics(); }

 private:
  BlockId& block_of(const TraceEvent& event) {
    return blocks_[static_cast<std::size_t>(event.number)];
  }

  bool allocate(const TraceEvent& event) {
    const std::optional<BlockId> block = allocator_.allocate(event.size, event.stream);
    if (!block) return false;
    if (event.kind == TraceEventKind::allocate) {
      block_of(event) = *block;
    } else {
      allocator_.free(*block);
    }
    return true;
  }

  PredictedDevice device_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;  // by allocation
};

}  // namespace

PlayedTrace play_requests(const AllocatorTrace& trace, const AllocatorSettings& settings,
                          Bytes available, std::size_t last) {
  RequestPlayer player(trace, settings, available);
  for (std::size_t i = 0; i <= last && i < trace.events.size(); ++i) {
    if (!player.act(trace.events[i])) return {player.statistics(), i};
  }
  return {player.statistics(), std::nullopt};
}

PlayedTrace play_requests(const AllocatorTrace& trace, const AllocatorSettings& settings,
                          Bytes available) {
  return play_requests(trace, settings, available, trace.events.size());
}

PlayedTrace play_requests(const AllocatorTrace& trace, const AllocatorSettings& settings,
                          Bytes available, const PlayedEvent& behind) {
  RequestPlayer player(trace, settings, available);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (!player.act(trace.events[i])) return {player.statistics(), i};
    behind(i, player.statistics());
  }
  return {player.statistics(), std::nullopt};
}

}  // namespace memest
