#include "memest/memory/recorded/recorded_course.hpp"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "memest/memory/recorded_use.hpp"
#include "memest/spec/recorded/phase_name.hpp"

namespace memest {
namespace {

/// The program holds an allocation until it asks for its free; what another stream still reads
/// comes back with a second event, which changes nothing that is allocated.
class Allocated {
 public:
  explicit Allocated(const AllocatorTrace& trace)
      : alive_(static_cast<std::size_t>(trace.allocations)) {}

  /// Whether the event allocates or frees.
  bool pass(const TraceEvent& event) {
    const bool allocates = event.kind == TraceEventKind::allocate;
    const bool frees =
        event.kind == TraceEventKind::free || event.kind == TraceEventKind::free_when_done;
    if (!allocates && !frees) return false;
    const auto number = static_cast<std::size_t>(event.number);
    if (alive_[number] == allocates) return false;
    alive_[number] = allocates;
    return true;
  }

 private:
  std::vector<bool> alive_;
};

/// "step2.forward"; what comes before the first marker of a step is the model's.
RecordedPhase phase_named(std::string_view marker) {
  constexpr std::string_view kStep = "step";
  const auto name = split_phase(marker);
  RecordedPhase phase{.name = "model"};
  if (!name || !name->step.starts_with(kStep)) return phase;
  const std::string_view number = name->step.substr(kStep.size());
  std::from_chars(number.data(), number.data() + number.size(), phase.step);
  phase.name = name->phase;
  if (phase.name == "unfinished") phase.name = "rest";  // of a program that ended there by itself
  return phase;
}

class Phases {
 public:
  /// A marker ends what came since the last one.
  void end(const std::string& marker, std::size_t events) {
    RecordedPhase phase = phase_named(marker);
    const auto last = static_cast<std::uint32_t>(events);
    phase.begin = begin_;
    phase.end = last;
    if (phase.step != step_) micro_step_ = 0;
    step_ = phase.step;
    if (phase.name == "forward") ++micro_step_;
    if (phase.name == "forward" || phase.name == "backward") phase.micro_step = micro_step_;
    if (phase.end > phase.begin) phases_.push_back(std::move(phase));
    begin_ = last;
  }

  std::vector<RecordedPhase> take() { return std::move(phases_); }

 private:
  std::vector<RecordedPhase> phases_;
  std::uint32_t begin_ = 0;
  std::int64_t step_ = 0;
  std::int64_t micro_step_ = 0;
};

}  // namespace

RecordedCourse course_of(const AllocatorTrace& trace, const AllocatorSettings& settings,
                         Bytes available) {
  RecordedCourse course;
  course.blocks.reserve(static_cast<std::size_t>(trace.allocations));
  Allocated alive(trace);
  Phases phases;
  Bytes most(-1);
  Bytes before;
  const auto pass = [&](std::size_t i, const AllocatorStatistics& now) {
    const TraceEvent& event = trace.events[i];
    if (event.kind == TraceEventKind::marker) {
      phases.end(trace.markers[static_cast<std::size_t>(event.number)].name, course.events.size());
    }
    if (!alive.pass(event)) return;
    const Bytes allocated = now.allocated.current;
    if (event.kind == TraceEventKind::allocate) course.blocks.push_back(allocated - before);
    before = allocated;
    if (allocated > most) {
      most = allocated;
      course.peak = static_cast<std::uint32_t>(course.events.size());
    }
    course.events.push_back(i);
    course.points.push_back({.allocated = allocated, .reserved = now.reserved.current});
  };
  course.played = play_requests(trace, settings, available, pass);
  if (course.played.failed) {
    phases.end(phase_of(trace, *course.played.failed), course.events.size());
  }
  course.phases = phases.take();
  return course;
}

}  // namespace memest
