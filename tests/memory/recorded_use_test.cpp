// The use of a recorded run's memory at its peak, and why it ran out.
#include "memest/memory/recorded_use.hpp"

#include <catch2/catch_test_macros.hpp>
#include <initializer_list>
#include <string>
#include <vector>

namespace memest {
namespace {

constexpr Bytes kMiB(std::int64_t{1} << 20U);

/// A trace of events of one stream; allocations are asked for at the places in turn.
struct Traced {
  Traced() { trace.device_memory = kMiB * 1000; }

  void allocate(Bytes size, const std::string& place) {
    event(TraceEventKind::allocate, size, trace.allocations++);
    trace.places.push_back(place);
    trace.asked_at.push_back(static_cast<std::uint32_t>(trace.places.size()) - 1);
  }
  void free(std::int64_t allocation) { event(TraceEventKind::free, {}, allocation); }
  void mark(const std::string& name) {
    event(TraceEventKind::marker, {}, static_cast<std::int64_t>(trace.markers.size()));
    trace.markers.push_back({name, 0, {}});
  }
  void fail(Bytes size, const std::string& place) {
    event(TraceEventKind::out_of_memory, size, 0);
    trace.failed_at = place;
  }
  void event(TraceEventKind kind, Bytes size, std::int64_t number) {
    trace.events.push_back({kind, 0, 0, size, number});
  }

  AllocatorTrace trace;
};

TEST_CASE("the peak is the first moment at which most is allocated, by place") {
  Traced run;
  run.allocate(Bytes(100), "weights");
  run.mark("step1.forward");
  run.allocate(kMiB, "batch");
  run.allocate(kMiB * 2, "hidden");
  run.free(1);
  run.mark("step1.backward");
  run.allocate(kMiB, "gradient");
  const RecordedMoment peak = peak_moment(run.trace);
  CHECK(peak.phase == "step1.backward");
  CHECK(peak.allocated == kMiB * 3 + Bytes(512));
  REQUIRE(peak.places.size() == 3);
  CHECK(peak.places[0].place == "hidden");
  CHECK(peak.places[0].bytes == kMiB * 2);
  CHECK(peak.places[1].place == "batch");
  CHECK(peak.places[2].bytes == Bytes(512));
}

TEST_CASE("a trace without places and without events has a peak of none") {
  CHECK(peak_moment({}).allocated == Bytes());
  Traced run;
  run.allocate(kMiB, "anywhere");
  run.trace.asked_at.clear();
  run.trace.places.clear();
  const RecordedMoment peak = peak_moment(run.trace);
  REQUIRE(peak.places.size() == 1);
  CHECK(peak.places[0].place.empty());
}

TEST_CASE("a place that holds more behind every step grows, one that levels off does not") {
  Traced run;
  for (int step = 1; step <= 5; ++step) {
    run.allocate(kMiB * 2, "batch");
    const std::int64_t batch = run.trace.allocations - 1;
    run.allocate(kMiB * step, "kept.py:9 main");
    run.trace.asked_at.back() = 1;  // the same line in every step
    if (step <= 2) run.allocate(kMiB * 8, "states");
    run.free(batch);
    run.mark("step" + std::to_string(step) + ".optimizer");
    if (step == 3) CHECK(growing_places(run.trace).empty());
  }
  const auto growing = growing_places(run.trace);
  REQUIRE(growing.size() == 1);
  CHECK(growing[0].place == "kept.py:9 main");
  CHECK(growing[0].a_step == kMiB * 5);
}

TEST_CASE("memory in pieces is mended by expandable segments, too little is not") {
  // Ten blocks of 90 MiB, of which every second is freed: 450 MiB are free, no 400 MiB together.
  Traced run;
  for (int i = 0; i < 10; ++i) run.allocate(kMiB * 90, "piece");
  for (std::int64_t i = 0; i < 10; i += 2) run.free(i);
  CHECK_FALSE(failure_of(run.trace));

  Traced pieces = run;
  pieces.fail(kMiB * 400, "whole.py:1 main");
  pieces.mark("step1.forward");
  const auto mended = failure_of(pieces.trace);
  REQUIRE(mended);
  CHECK(mended->phase == "step1.forward");
  CHECK(mended->place == "whole.py:1 main");
  CHECK(mended->allocated == kMiB * 450);
  CHECK(mended->fits_expandable == true);

  Traced much = run;
  much.fail(kMiB * 600, "");
  CHECK(failure_of(much.trace)->fits_expandable == false);

  Traced expandable = pieces;
  expandable.trace.settings.expandable_segments = true;
  CHECK_FALSE(failure_of(expandable.trace)->fits_expandable);

  Traced context = pieces;
  context.trace.context = kMiB * 200;
  CHECK(failure_of(context.trace)->fits_expandable == false);
}

}  // namespace
}  // namespace memest
