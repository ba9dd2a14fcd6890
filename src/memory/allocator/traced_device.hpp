// The device of a replay: hands out the addresses of a trace, and holds what the allocator does to
// segments against what the trace has of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "memest/memory/device_memory.hpp"
#include "memest/memory/replay.hpp"

namespace memest {

class TracedDevice : public DeviceMemory {
 public:
  TracedDevice(const AllocatorTrace& trace, SegmentAddresses addresses);

  /// The allocator now acts for event `index` of the trace. Segments stand before the allocation
  /// that caused them, and behind an empty_cache.
  void begin(std::size_t index);
  /// An allocation has acted: what the trace has of segments until here must have happened.
  void settle();
  /// The trace ends: all of it must.
  void finish();
  /// How many of the trace's segment events were compared.
  [[nodiscard]] std::size_t compared() const { return next_; }
  [[nodiscard]] const std::optional<ReplayDifference>& difference() const { return difference_; }

  [[nodiscard]] Bytes total() const override { return trace_.device_memory; }
  std::optional<Address> allocate(Bytes size, int stream) override;
  void release(const DeviceRange& segment) override;
  Address reserve_addresses(Bytes size, int stream) override;
  void return_addresses(const DeviceRange& space) override;
  bool map(const DeviceRange& range) override;
  void unmap(const DeviceRange& range) override;

 private:
  Address place(Bytes size);
  void give_back(const DeviceRange& range);
  void compare(TraceEventKind kind, const DeviceRange& range);
  [[nodiscard]] const TraceEvent& segment_event(std::size_t index) const;

  const AllocatorTrace& trace_;
  SegmentAddresses addresses_;
  Bytes room_;
  std::map<Address, Address> taken_;  // ranges handed out: begin, end
  AddressSpace predicted_;
  std::optional<Address> offset_;      // from a predicted address to the one handed out
  std::vector<std::size_t> segments_;  // the trace's events of segments
  std::size_t next_ = 0;               // of segments_, to compare with
  std::size_t until_ = 0;              // segments_ before it may belong to the event
  std::size_t event_ = 0;
  std::optional<ReplayDifference> difference_;
};

}  // namespace memest
