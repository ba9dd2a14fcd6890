// The course of a recorded run, held to what the allocator's statistics say of the whole.
#include "memest/memory/recorded/recorded_course.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_trace.hpp"

namespace memest {
namespace {

AllocatorTrace trace_of(const std::string& events) {
  const auto read = read_trace(std::make_shared<const SourceText>(
      SourceText{"t", "# allocator trace 1\n# total: 1000000000\n" + events}));
  REQUIRE(read.ok());
  return read.value();
}

RecordedCourse played_course(const AllocatorTrace& trace, Bytes available) {
  return course_of(trace, trace.settings, available);
}

TEST_CASE("points, blocks and phases of a run add up to its statistics") {
  const AllocatorTrace trace = trace_of(
      "a 0 1000 0\na 1 5000 0\n= step1.forward\na 2 700000 0\nq 1\nf 1\n= step1.backward\n"
      "= step1.forward\nf 2\n= step1.backward\na 3 512 0\n= step1.optimizer\nf 0\n= "
      "step2.unfinished\n");
  const RecordedCourse course = played_course(trace, Bytes(1'000'000'000));
  REQUIRE(course.points.size() == 7);  // the second event of a block that is awaited is none
  CHECK(course.blocks == std::vector<Bytes>{Bytes(1024), Bytes(5120), Bytes(700416), Bytes(512)});
  CHECK(course.points[course.peak].allocated == course.played.end.allocated.peak);
  CHECK(course.points.back().allocated == course.played.end.allocated.current);
  Bytes reserved;
  for (const CoursePoint& point : course.points) reserved = std::max(reserved, point.reserved);
  CHECK(reserved == course.played.end.reserved.peak);
  std::string phases;
  std::uint32_t next = 0;
  for (const RecordedPhase& phase : course.phases) {
    CHECK(phase.begin == next);
    next = phase.end;
    phases += std::to_string(phase.step) + "." + phase.name + "." +
              std::to_string(phase.micro_step) + " ";
  }
  CHECK(next == course.events.size());
  // The second forward has nothing of its own, and its backward frees nothing before its marker.
  CHECK(phases == "1.forward.1 1.backward.1 1.backward.2 1.optimizer.0 2.rest.0 ");
}

TEST_CASE("a course ends where memory does") {
  const AllocatorTrace trace = trace_of("a 0 2000000 0\na 1 90000000 0\nf 1\n= step1.forward\n");
  const RecordedCourse course = played_course(trace, Bytes(50'000'000));
  CHECK(course.points.size() == 1);
  CHECK(course.played.failed == 1);
}

}  // namespace
}  // namespace memest
