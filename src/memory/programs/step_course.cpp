#include "memest/memory/step_course.hpp"

#include <utility>

#include "memory/timeline/awaited_blocks.hpp"

namespace memest {
namespace {

/// A predicted device that notes what is taken from it and given back.
class NotingDevice : public PredictedDevice {
 public:
  using PredictedDevice::PredictedDevice;

  std::optional<Address> allocate(Bytes size, int stream) override {
    const std::optional<Address> address = PredictedDevice::allocate(size, stream);
    if (address) note(SegmentChangeKind::obtained, {*address, size, stream});
    return address;
  }
  void release(const DeviceRange& segment) override {
    PredictedDevice::release(segment);
    note(SegmentChangeKind::returned, segment);
  }
  bool map(const DeviceRange& range) override {
    const bool mapped = PredictedDevice::map(range);
    if (mapped) note(SegmentChangeKind::mapped, range);
    return mapped;
  }
  void unmap(const DeviceRange& range) override {
    PredictedDevice::unmap(range);
    note(SegmentChangeKind::unmapped, range);
  }

  void begin_event(std::uint32_t event) { event_ = event; }
  std::vector<SegmentChange> take_changes() { return std::exchange(changes_, {}); }

 private:
  void note(SegmentChangeKind kind, const DeviceRange& range) {
    changes_.push_back({kind, event_, range});
  }

  std::uint32_t event_ = 0;
  std::vector<SegmentChange> changes_;
};

}  // namespace

StepCourse course_of(const Timeline& timeline, const AllocatorSettings& settings,
                     const ReplayDevice& device) {
  NotingDevice memory(device.total, device.available);
  CachingAllocator allocator(settings, device.limit, memory);
  std::vector<BlockId> blocks(timeline.storages.size(), BlockId::none);
  AwaitedBlocks awaited(timeline, allocator);
  StepCourse course;
  course.points.reserve(timeline.events.size());
  for (std::uint32_t i = 0; i < timeline.events.size(); ++i) {
    const Event event = timeline.events[i];
    memory.begin_event(i);
    awaited.come_to(i);
    if (timeline.emptied_before == i) allocator.empty_cache();
    CoursePoint point;
    if (event.kind == EventKind::free) {
      point.address = allocator.address_of(blocks[event.storage]);
      awaited.free(event.storage, blocks[event.storage]);
    } else {
      const Storage& storage = timeline.storages[event.storage];
      const auto block = allocator.allocate(Bytes(storage.bytes), storage.stream.number());
      if (!block) break;
      blocks[event.storage] = *block;
      point.address = allocator.address_of(*block);
    }
    point.allocated = allocator.statistics().allocated.current;
    point.reserved = allocator.statistics().reserved.current;
    course.points.push_back(point);
  }
  course.segments = memory.take_changes();
  course.end = allocator.snapshot();
  return course;
}

}  // namespace memest
