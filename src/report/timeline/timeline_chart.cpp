#include "report/timeline/timeline_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

/// A colour of the stack, from the bottom up, with the holdings that share it: the small ones share
/// the first.
struct StackRow {
  const char* name;
  Hue hue;
};
constexpr std::array<StackRow, kHues> kStack = {{{"buffers, batch, workspaces", Hue::grey},
                                                 {"weights", Hue::indigo},
                                                 {"optimizer states", Hue::teal},
                                                 {"gradients", Hue::rose},
                                                 {"gathered weights", Hue::green},
                                                 {"cast weights", Hue::wine},
                                                 {"activations", Hue::sand},
                                                 {"gradients of activations", Hue::purple},
                                                 {"temporaries", Hue::cyan},
                                                 {"buffers of collectives", Hue::olive}}};

/// The row of kStack that a holding is drawn in.
std::size_t row_of(Holding holding) {
  switch (holding) {
    case Holding::weights:
      return 1;
    case Holding::optimizer_states:
      return 2;
    case Holding::gradients:
      return 3;
    case Holding::gathered_weights:
      return 4;
    case Holding::cast_weights:
      return 5;
    case Holding::activations:
      return 6;
    case Holding::passing_gradients:
      return 7;
    case Holding::temporaries:
      return 8;
    case Holding::collective_buffers:
      return 9;
    case Holding::buffers:
    case Holding::batch:
    case Holding::workspaces:
      return 0;
  }
  unreachable("a holding beyond the enum");
}

/// How many storages the first `events` make: they are numbered as they come.
StorageId storages_until(const Timeline& timeline, std::size_t events) {
  StorageId count = 0;
  for (std::size_t i = 0; i < events; ++i) {
    if (timeline.events[i].kind == EventKind::allocate) count = timeline.events[i].storage + 1;
  }
  return count;
}

void add_events(const TimelineRun& run, CourseChart& chart) {
  Bytes reserved(-1);
  for (std::size_t i = 0; i < run.course.points.size(); ++i) {
    const Event event = run.memory.timeline.events[i];
    const auto storage = static_cast<std::int64_t>(event.storage);
    chart.events.push_back(event.kind == EventKind::allocate ? storage : -1 - storage);
    const Bytes now = run.course.points[i].reserved;
    if (now != reserved) chart.reserved.emplace_back(static_cast<std::uint32_t>(i), now.value());
    reserved = now;
  }
}

/// Names by number: a timeline repeats few of them often.
void add_storages(const TimelineRun& run, CourseChart& chart) {
  const Timeline& timeline = run.memory.timeline;
  std::unordered_map<std::string, std::size_t> numbers;
  for (StorageId id = 0; id < storages_until(timeline, chart.events.size()); ++id) {
    chart.bytes.push_back(run.memory.replay.blocks[id].value());
    chart.kind.push_back(row_of(timeline.storages[id].label.holding));
    std::string name = moment_name(run.memory, id);
    const auto [entry, is_new] = numbers.try_emplace(name, chart.names.size());
    if (is_new) chart.names.push_back(std::move(name));
    chart.name.push_back(entry->second);
  }
}

void add_stretches(const TimelineRun& run, CourseChart& chart) {
  for (const Span& span : run.memory.timeline.spans) {
    if (span.begin >= chart.events.size()) break;
    const std::string phase(name_of(span.phase));
    chart.stretches.push_back(
        {.name = span.micro_step > 1 ? fmt::format("{} {}", phase, span.micro_step) : phase,
         .group = span.step == 0 ? "" : fmt::format("step {}", span.step),
         .begin = span.begin,
         .end = span.end});
  }
}

CourseChart drawing_of(const TimelineRun& run) {
  CourseChart chart;
  for (const StackRow& row : kStack) chart.kinds.push_back({row.name, row.hue});
  add_events(run, chart);
  add_storages(run, chart);
  add_stretches(run, chart);
  chart.peak = run.memory.replay.peak.event;
  const ReplayDevice device = replay_device_of(run.job);
  chart.capacity = std::min(device.limit.value_or(device.available), device.available).value();
  if (const auto& out = run.memory.replay.out_of_memory) {
    const StorageId storage = run.memory.timeline.events[out->event].storage;
    chart.failure = {fmt::format("{} asked for by {}", sized_text(out->requested),
                                 moment_name(run.memory, storage)),
                     out->requested.value()};
  }
  return chart;
}

}  // namespace

Chart course_chart(const TimelineRun& run) {
  return {"Memory over the events of the step.",
          "Across go the events, not the time. The pointer, or the arrow keys, choose one; a click "
          "holds it; the slider shows fewer events.",
          [&run] { return drawing_of(run); }};
}

}  // namespace memest
