// Recordings at a few sizes become one for all, or are refused by name.
#include "memest/memory/recorded/fit_family.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <variant>

#include "memest/memory/recorded/family_at.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

const std::vector<VariedSize> kVaried{{"batch", {2, 3, 5}}, {"seq", {512, 640, 896}}};
constexpr Bytes kDevice(std::int64_t{1} << 34U);

/// A recording made event by event.
struct MadeRun {
  MadeRun() {
    trace.device_memory = kDevice;
    trace.settings_text = "default";
    trace.places = {"train.py:1", "train.py:2"};
  }
  void allocate(std::int64_t size, std::uint32_t place = 0) {
    event(TraceEventKind::allocate, size, trace.allocations++);
    trace.asked_at.push_back(place);
  }
  void free(std::int64_t allocation) { event(TraceEventKind::free, 0, allocation); }
  void mark(const std::string& name) {
    event(TraceEventKind::marker, 0, static_cast<std::int64_t>(trace.markers.size()));
    trace.markers.push_back({name, 0, {}});
  }
  void event(TraceEventKind kind, std::int64_t size, std::int64_t number) {
    const auto line = static_cast<std::int32_t>(trace.events.size() + 1);
    trace.events.push_back({kind, line, 0, Bytes(size), number});
  }

  AllocatorTrace trace;
};

/// Weights, a batch, scores and a gradient; a segment whose size is its own.
MadeRun step_of(std::int64_t batch, std::int64_t seq) {
  MadeRun run;
  run.event(TraceEventKind::segment_obtained, std::int64_t{1} << 21U, batch * 7 + seq);
  run.allocate(4096);
  run.allocate(8 * batch * seq);
  run.allocate(batch * seq * seq / 8 + 64 * seq, 1);
  run.mark("step1.forward");
  run.free(2);
  run.free(1);
  run.allocate(4096);
  run.mark("step1.backward");
  return run;
}

using Program = std::function<MadeRun(std::int64_t, std::int64_t)>;

std::variant<FittedFamily, FamilyRefusal> fitted(const Program& program) {
  const RecordedPoints points = points_of(kVaried);
  std::vector<SizePoint> all = points.fitted;
  all.push_back(points.held_out);
  std::vector<RecordedAt> recorded;
  for (const SizePoint& point : all) {
    Recording recording;
    recording.trace = program(point[0], point[1]).trace;
    recorded.push_back({point, std::move(recording)});
  }
  return fit_family(kVaried, std::move(recorded));
}

FamilyRefusal refusal_of_program(const Program& program) {
  const auto answer = fitted(program);
  REQUIRE(std::holds_alternative<FamilyRefusal>(answer));
  return std::get<FamilyRefusal>(answer);
}

/// A drawn trace without segments and statistics, by its events.
void check_equal(const AllocatorTrace& left, AllocatorTrace right) {
  std::erase_if(right.events, [](const TraceEvent& event) { return is_segment_event(event.kind); });
  REQUIRE(left.events.size() == right.events.size());
  for (std::size_t i = 0; i < left.events.size(); ++i) {
    if (right.events[i].kind == TraceEventKind::free) continue;  // by number
    CHECK(left.events[i].kind == right.events[i].kind);
    CHECK(left.events[i].size == right.events[i].size);
    CHECK(left.events[i].number == right.events[i].number);
  }
}

TEST_CASE("the points are a star, the highest corner, and one that is held out") {
  const RecordedPoints points = points_of(kVaried);
  CHECK(points.fitted ==
        std::vector<SizePoint>{{2, 512}, {3, 512}, {5, 512}, {2, 640}, {2, 896}, {5, 896}});
  CHECK(points.held_out == SizePoint{3, 640});
  const RecordedPoints line = points_of({{"batch", {1, 2, 4, 8}}});
  CHECK(line.fitted == std::vector<SizePoint>{{1}, {2}, {8}});
  CHECK(line.held_out == SizePoint{4});
  CHECK(points_of({kVaried[0], kVaried[1], {"k", {1, 2, 3}}}).fitted.size() == 8);
}

TEST_CASE("a family at a recorded point is that recording") {
  const auto answer = fitted(step_of);
  if (const auto* refusal = std::get_if<FamilyRefusal>(&answer)) {
    INFO(static_cast<int>(refusal->fault)
         << " " << refusal->played.allocated.value() << " " << refusal->recorded.allocated.value());
    FAIL("refused");
  }
  const auto& family = std::get<FittedFamily>(answer).family;
  CHECK(std::get<FittedFamily>(answer).held_out.requests == 4);
  REQUIRE(family.formulas.size() == 3);  // 4,096 B twice
  CHECK(family.formulas[1].text(family.names()) == "8*batch*seq");
  CHECK(family.formulas[2].text(family.names()) == "(batch*seq^2+512*seq)/8");
  std::vector<SizePoint> all = family.fitted;
  all.push_back(family.held_out);
  all.push_back({7, 1024});
  for (const SizePoint& point : all) {
    check_equal(std::get<AllocatorTrace>(trace_at(family, point)),
                step_of(point[0], point[1]).trace);
  }
}

TEST_CASE("frees with nothing between them may come in any order") {
  const auto answer = fitted([](std::int64_t batch, std::int64_t seq) {
    MadeRun run = step_of(batch, seq);
    if (batch == 3) std::swap(run.trace.events[5].number, run.trace.events[6].number);
    return run;
  });
  CHECK(std::holds_alternative<FittedFamily>(answer));
}

TEST_CASE("events that come in another order are named") {
  const FamilyRefusal refusal = refusal_of_program([](std::int64_t batch, std::int64_t seq) {
    MadeRun run = step_of(batch, seq);
    if (seq == 640) std::swap(run.trace.events[6], run.trace.events[7]);
    return run;
  });
  CHECK(refusal.fault == FamilyFault::other_event);
  CHECK(refusal.phase == "step1.backward");
  REQUIRE(refusal.events.size() == 2);
  CHECK(refusal.events[0].point == SizePoint{2, 512});
  CHECK(refusal.events[1].point == SizePoint{2, 640});
  CHECK(refusal.events[0].event->number == 1);
  CHECK(refusal.events[1].event->number == 2);
}

TEST_CASE("another place, another stream, another marker and another length part runs") {
  const auto changed = [](const std::function<void(AllocatorTrace&)>& change) {
    return refusal_of_program([&](std::int64_t batch, std::int64_t seq) {
             MadeRun run = step_of(batch, seq);
             if (batch == 5 && seq == 896) change(run.trace);
             return run;
           })
        .fault;
  };
  CHECK(changed([](AllocatorTrace& trace) { trace.asked_at[2] = 0; }) == FamilyFault::other_event);
  CHECK(changed([](AllocatorTrace& trace) { trace.events[2].stream = 1; }) ==
        FamilyFault::other_event);
  CHECK(changed([](AllocatorTrace& trace) { trace.markers[0].name = "step2.forward"; }) ==
        FamilyFault::other_event);
  CHECK(changed([](AllocatorTrace& trace) { trace.events.pop_back(); }) ==
        FamilyFault::other_event);
  CHECK(changed([](AllocatorTrace& trace) {
          trace.events.push_back({TraceEventKind::out_of_memory, 9, 0, Bytes(512), 0});
        }) == FamilyFault::ran_out);
}

TEST_CASE("a size that is no polynomial is named with its values") {
  const FamilyRefusal refusal = refusal_of_program([](std::int64_t batch, std::int64_t seq) {
    MadeRun run = step_of(batch, seq);
    run.trace.events[2].size = Bytes(std::int64_t{1} << (batch + seq / 128));
    return run;
  });
  CHECK(refusal.fault == FamilyFault::no_formula);
  CHECK(refusal.phase == "step1.forward");
  REQUIRE(refusal.events.size() == 6);
  CHECK(refusal.events[0].event->number == 1);
  CHECK(refusal.events[0].name == "train.py:1");
  CHECK(refusal.events[5].event->size == Bytes(1 << 12));
}

TEST_CASE("the point that is held out refuses what the others allow") {
  const FamilyRefusal size = refusal_of_program([](std::int64_t batch, std::int64_t seq) {
    MadeRun run = step_of(batch, seq);
    if (batch == 3 && seq == 640) run.trace.events[2].size += Bytes(8);
    return run;
  });
  CHECK(size.fault == FamilyFault::held_out_size);
  CHECK(size.events[0].event->size == Bytes(8 * 3 * 640 + 8));
  CHECK(size.formula == SizeFormula({{8, {1, 1}}}));
  const FamilyRefusal peak = refusal_of_program([](std::int64_t batch, std::int64_t seq) {
    MadeRun run = step_of(batch, seq);
    auto& statistics = run.trace.markers.back().statistics;
    statistics[static_cast<std::size_t>(TracedStatistic::allocated_peak)] = 12;
    return run;
  });
  CHECK(peak.fault == FamilyFault::held_out_peaks);
  CHECK(peak.recorded.allocated == Bytes(12));
}

TEST_CASE("a size that grows in steps is compared up to the steps that the points leave open") {
  const auto answer = fitted([](std::int64_t batch, std::int64_t seq) {
    MadeRun run = step_of(batch, seq);
    run.trace.events[2].size = Bytes(8 * batch * seq + 64 * ((batch * seq + 899) / 900));
    return run;
  });
  REQUIRE(std::holds_alternative<FittedFamily>(answer));
  const auto& family = std::get<FittedFamily>(answer);
  CHECK(family.family.formulas[1].text(family.family.names()) ==
        "8*batch*seq+64*ceil(batch*seq/896..1023)");
  CHECK(family.held_out.within_steps == 0);
  CHECK(slack_at(family.family, {2, 512}).requests == 0);
  CHECK(slack_at(family.family, {40, 1024}).requests == 1);
}

TEST_CASE("numbers that leave 128 bits are an overflow") {
  const std::vector<VariedSize> varied{{"batch", {1, 3, (std::int64_t{1} << 40U) - 1}},
                                       {"seq", {1, 5, (std::int64_t{1} << 40U) - 3}}};
  std::vector<RecordedAt> recorded;
  RecordedPoints points = points_of(varied);
  points.fitted.push_back(points.held_out);
  for (const SizePoint& point : points.fitted) {
    MadeRun run;
    run.allocate(point[0] % 1000 * (point[1] % 1000) + 17 * (point[0] % 7));
    Recording recording;
    recording.trace = run.trace;
    recorded.push_back({point, std::move(recording)});
  }
  CHECK_THROWS_AS(fit_family(varied, std::move(recorded)), OverflowError);
}

/// A family whose only formula is `formula`, of one request.
RecordedFamily family_with(const SizeFormula& formula, const std::vector<VariedSize>& varied) {
  MadeRun run;
  run.allocate(0);
  RecordedFamily family;
  family.varied = varied;
  family.trace = run.trace;
  family.formulas = {formula};
  family.formula_of = {0};
  return family;
}

TEST_CASE("a value lies within what was recorded, beyond it or between") {
  CHECK(range_of(kVaried[1], 768) == SizeRange::seen);
  CHECK(range_of(kVaried[1], 700) == SizeRange::not_aligned);
  CHECK(range_of(kVaried[1], 1024) == SizeRange::beyond);
  CHECK(range_of(kVaried[1], 384) == SizeRange::beyond);
  CHECK(common_unit(kVaried[0]) == 1);
  CHECK(common_unit(kVaried[1]) == 128);
}

TEST_CASE("the largest value fits, and the next does not") {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20U;
  const RecordedFamily family =
      family_with(SizeFormula({{64 * kMiB, {1, 0}}, {kMiB, {0, 1}}}), kVaried);
  const auto largest = [&](std::size_t varied, std::int64_t mebibytes) {
    const PlayedDevice device{{}, kDevice, Bytes(mebibytes * kMiB)};
    return std::get<LargestSize>(find_largest_size(family, {2, 512}, varied, device));
  };
  CHECK(largest(0, 512 + 23 * 64 + 63).value == 23);
  CHECK(largest(0, 512 + 23 * 64 + 63).next == 24);
  CHECK(largest(1, 2 * 64 + 1000).value == 896);  // of multiples of 128
  CHECK(largest(1, 2 * 64 + 1000).next == 1024);
  CHECK(largest(0, 512 + 64).value == 1);
  CHECK(largest(0, 512 + 63).value == std::nullopt);
  CHECK(largest(0, 512 + 63).next == 1);
  const RecordedFamily constant = family_with(SizeFormula({{kMiB, {0, 0}}}), kVaried);
  const auto any = find_largest_size(constant, {2, 512}, 0, {{}, kDevice, kDevice});
  CHECK(std::get<LargestSize>(any).next == std::nullopt);
}

TEST_CASE("a formula that gives no size is told") {
  const RecordedFamily half = family_with(SizeFormula({{1, {1, 1}}}, 1024), kVaried);
  CHECK(slack_at(half, {2, 512}).rounded == 0);
  CHECK(slack_at(half, {3, 512}).rounded == 1);
  CHECK(std::get<AllocatorTrace>(trace_at(half, {3, 512})).events[0].size == Bytes(2));
  const RecordedFamily less = family_with(SizeFormula({{1, {0, 1}}, {-512, {0, 0}}}), kVaried);
  CHECK(std::get<NoSize>(trace_at(less, {2, 512})).value == 0);
  CHECK(std::get<NoSize>(trace_at(less, {2, 128})).value == -384);
  const RecordedFamily large = family_with(SizeFormula({{1, {2, 1}}}), kVaried);
  CHECK(std::holds_alternative<NoSize>(trace_at(large, {std::int64_t{1} << 40U, 512})));
}

TEST_CASE("places at the peak have the sum of their formulas") {
  const auto answer = fitted(step_of);
  const auto& family = std::get<FittedFamily>(answer).family;
  const std::vector<PlaceFormula> places = peak_formulas(family, {5, 896});
  REQUIRE(places.size() == 2);
  CHECK(places[0].place == "train.py:2");
  CHECK(places[1].allocations == 2);
  CHECK(places[1].formula.text(family.names()) == "8*batch*seq+4096");
  CHECK(places[1].bytes == Bytes(4096 + 8 * 5 * 896));
}

}  // namespace
}  // namespace memest
