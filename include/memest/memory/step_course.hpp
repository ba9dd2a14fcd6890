// A timeline's course through the allocator, event by event: where each storage lies, what is
// allocated and reserved after each event, and which segments came and went.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/caching_allocator.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

/// The allocator after an event.
struct CoursePoint {
  Address address = 0;  ///< of the storage that the event allocates or frees
  Bytes allocated;
  Bytes reserved;
};

enum class SegmentChangeKind : std::uint8_t { obtained, returned, mapped, unmapped };

/// Device memory that the allocator took or gave back so that it could answer an event.
struct SegmentChange {
  SegmentChangeKind kind = SegmentChangeKind::obtained;
  std::uint32_t event = 0;
  DeviceRange range;
};

struct StepCourse {
  std::vector<CoursePoint> points;      ///< as many as events; fewer where one runs out of memory
  std::vector<SegmentChange> segments;  ///< in order
  std::vector<SegmentView> end;         ///< the segments after the last point
};

/// The course that replay_steps takes with the same arguments. Throws OverflowError.
StepCourse course_of(const Timeline& timeline, const AllocatorSettings& settings,
                     const ReplayDevice& device);

}  // namespace memest
