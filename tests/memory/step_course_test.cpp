// A timeline's course through the allocator: the same as its replay, with every address accounted
// for.
#include "memest/memory/step_course.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>

#include "jobs.hpp"
#include "memest/memory/storage_maker.hpp"

namespace memest::testing {
namespace {

constexpr ReplayDevice kDevice{Bytes(80 * kGiB), Bytes(80 * kGiB), std::nullopt};

Job llama_job() {
  Job job = job_of("bf16", "adamw");
  job.model = llama(4, 256, 8, 4, 688);
  job.training->micro_batch = 2;
  job.training->seq_len = 128;
  return job;
}

AllocatorSettings settings_of(bool expandable) {
  AllocatorSettings settings;
  settings.expandable_segments = expandable;
  return settings;
}

std::int64_t sign_of(SegmentChangeKind kind) {
  return kind == SegmentChangeKind::obtained || kind == SegmentChangeKind::mapped ? 1 : -1;
}

TEST_CASE("the course peaks where and as the replay does", "[course]") {
  const bool expandable = GENERATE(false, true);
  const Job job = llama_job();
  const auto timeline = std::get<Timeline>(write_timeline(lowered(job), job));
  const StepReplay replay = replay_steps(timeline, settings_of(expandable), kDevice);
  const StepCourse course = course_of(timeline, settings_of(expandable), kDevice);
  REQUIRE(course.points.size() == timeline.events.size());
  CHECK(course.points[replay.peak.event].allocated == replay.peak.allocated);
  CHECK(course.points[replay.peak.event].reserved == replay.peak.reserved);
  for (const CoursePoint& point : course.points) {
    CHECK(point.allocated <= replay.peak.allocated);
    CHECK(point.reserved <= replay.statistics.reserved.peak);
  }
  CHECK(course.points.back().allocated == replay.statistics.allocated.current);
}

TEST_CASE("segments that come and go add up to what is reserved", "[course]") {
  const bool expandable = GENERATE(false, true);
  const Job job = llama_job();
  const auto timeline = std::get<Timeline>(write_timeline(lowered(job), job));
  const StepCourse course = course_of(timeline, settings_of(expandable), kDevice);
  std::int64_t reserved = 0;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < course.points.size(); ++i) {
    for (; next < course.segments.size() && course.segments[next].event == i; ++next) {
      const SegmentChange& change = course.segments[next];
      reserved += sign_of(change.kind) * change.range.size.value();
    }
    CHECK(Bytes(reserved) == course.points[i].reserved);
  }
  CHECK(next == course.segments.size());
  Bytes at_end;
  for (const SegmentView& segment : course.end) at_end += segment.range.size;
  CHECK(at_end == Bytes(reserved));
}

TEST_CASE("no two living storages share an address", "[course]") {
  const Job job = llama_job();
  const auto timeline = std::get<Timeline>(write_timeline(lowered(job), job));
  const StepCourse course = course_of(timeline, {}, kDevice);
  std::map<Address, std::int64_t> alive;
  for (std::size_t i = 0; i < course.points.size(); ++i) {
    const Event event = timeline.events[i];
    const Address address = course.points[i].address;
    if (event.kind == EventKind::free) {
      CHECK(alive.erase(address) == 1);
      continue;
    }
    const std::int64_t bytes = timeline.storages[event.storage].bytes;
    const auto after = alive.lower_bound(address);
    if (after != alive.end()) CHECK(address + bytes <= after->first);
    if (after != alive.begin()) {
      const auto before = std::prev(after);
      CHECK(before->first + before->second <= address);
    }
    alive.emplace(address, bytes);
  }
}

TEST_CASE("a course ends before the event that runs out of memory", "[course]") {
  const Job job = llama_job();
  const auto timeline = std::get<Timeline>(write_timeline(lowered(job), job));
  const ReplayDevice small{Bytes(80 * kGiB), Bytes(80 * kGiB), Bytes(40 * kMiB)};
  const StepReplay replay = replay_steps(timeline, {}, small);
  REQUIRE(replay.out_of_memory);
  CHECK(course_of(timeline, {}, small).points.size() == replay.out_of_memory->event);
}

TEST_CASE("a storage's maker says in parts what its name says in one", "[course]") {
  const Job job = llama_job();
  const Graph graph = lowered(job);
  const auto timeline = std::get<Timeline>(write_timeline(graph, job));
  for (StorageId id = 0; id < timeline.storages.size(); ++id) {
    const StorageMaker maker = maker_of(timeline, graph, id);
    const std::string name = storage_name(timeline, graph, id);
    CHECK_FALSE(maker.tensor.empty());
    CHECK(maker.block.empty() == maker.op.empty());
    CHECK(name.find(maker.block) != std::string::npos);
    if (maker.block.empty()) CHECK(name == maker.tensor);
  }
}

}  // namespace
}  // namespace memest::testing
