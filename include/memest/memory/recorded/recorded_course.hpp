// A recorded run's memory behind every request and free of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memest/memory/play_requests.hpp"
#include "memest/memory/step_course.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// A phase of the run: the course's events [begin, end), in the order of the run.
struct RecordedPhase {
  std::string name;             ///< "forward"; "rest" behind the last, "model" without steps
  std::int64_t step = 0;        ///< 0: before the first
  std::int64_t micro_step = 0;  ///< from 1 on, by the step's forwards; 0 of no forward or backward
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct RecordedCourse {
  std::vector<std::size_t> events;  ///< that allocate or free, by their index in the trace
  std::vector<CoursePoint> points;  ///< behind each; fewer where one runs out of memory
  std::vector<Bytes> blocks;        ///< by allocation, rounded as the allocator does
  std::vector<RecordedPhase> phases;
  std::uint32_t peak = 0;  ///< the first of `events` behind which most is allocated
  PlayedTrace played;
};

/// Plays the requests on a device of which the allocator may have `available`.
RecordedCourse course_of(const AllocatorTrace& trace, const AllocatorSettings& settings,
                         Bytes available);

}  // namespace memest
