#include "memest/report/record/recorded_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "memest/memory/recorded_use.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/csv.hpp"
#include "report/pages/json.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/phase_text.hpp"
#include "report/record/places_table.hpp"
#include "report/record/played_fit.hpp"
#include "report/record/played_point.hpp"
#include "report/timeline/timeline_curve.hpp"

namespace memest {
namespace {

/// Memory is drawn in one colour by the phase that asked for it.
struct AskedIn {
  const char* name;
  Hue hue;
};
constexpr std::array<AskedIn, 5> kAskedIn = {{{"asked for until the first backward", Hue::indigo},
                                              {"in a forward", Hue::sand},
                                              {"in a backward", Hue::purple},
                                              {"in an optimizer", Hue::teal},
                                              {"elsewhere", Hue::grey}}};

std::size_t row_of(const RecordedPhase& phase) {
  if (phase.name == "forward") return phase.step == 1 && phase.micro_step == 1 ? 0 : 1;
  if (phase.name == "backward") return 2;
  return phase.name == "optimizer" ? 3 : 4;
}

/// The phase of each event, asked in order.
class PhaseCursor {
 public:
  explicit PhaseCursor(const RecordedCourse& course) : phases_(course.phases) {}

  const RecordedPhase* at(std::uint32_t event) {
    while (next_ < phases_.size() && phases_[next_].end <= event) ++next_;
    return next_ < phases_.size() ? &phases_[next_] : nullptr;
  }

 private:
  const std::vector<RecordedPhase>& phases_;
  std::size_t next_ = 0;
};

const TraceEvent& event_of(const PlayedRun& run, const RecordedCourse& course, std::uint32_t i) {
  return run.trace.events[course.events[i]];
}

CourseChart drawing_of(const PlayedRun& run, const RecordedCourse& course) {
  CourseChart chart;
  for (const AskedIn& row : kAskedIn) chart.kinds.push_back({row.name, row.hue});
  std::unordered_map<std::string, std::size_t> numbers;
  PhaseCursor phases(course);
  Bytes reserved(-1);
  for (std::uint32_t i = 0; i < course.points.size(); ++i) {
    const TraceEvent& event = event_of(run, course, i);
    const RecordedPhase* phase = phases.at(i);
    if (course.points[i].reserved != reserved) {
      reserved = course.points[i].reserved;
      chart.reserved.emplace_back(i, reserved.value());
    }
    if (event.kind != TraceEventKind::allocate) {
      chart.events.push_back(-1 - event.number);
      continue;
    }
    chart.events.push_back(event.number);
    chart.bytes.push_back(course.blocks[static_cast<std::size_t>(event.number)].value());
    chart.kind.push_back(phase == nullptr ? kAskedIn.size() - 1 : row_of(*phase));
    std::string name = asking_text(std::string(run.trace.place_of(event.number)));
    const auto [entry, is_new] = numbers.try_emplace(name, chart.names.size());
    if (is_new) chart.names.push_back(std::move(name));
    chart.name.push_back(entry->second);
  }
  for (const RecordedPhase& phase : course.phases) {
    chart.stretches.push_back({.name = phase.name,
                               .group = phase.step == 0 ? "" : fmt::format("step {}", phase.step),
                               .begin = phase.begin,
                               .end = phase.end});
  }
  chart.peak = course.peak;
  chart.capacity = run.available.value();
  if (run.played.failed) {
    const Bytes asked = run.trace.events[*run.played.failed].size;
    chart.failure = {fmt::format("{} asked for", sized_text(asked)), asked.value()};
  }
  return chart;
}

DrawnCurve curve_over(const RecordedCourse& course) {
  DrawnCurve curve{.points = course.points, .peak = course.peak};
  if (!course.points.empty()) curve.allocated = course.points[course.peak].allocated;
  for (const RecordedPhase& phase : course.phases) {
    curve.phases.push_back({phase.name, phase.step, phase.micro_step, phase.begin, phase.end});
    curve.micro_steps = std::max(curve.micro_steps, phase.micro_step);
  }
  return curve;
}

/// The most that the program holds. A request that failed when it was recorded holds nothing, as
/// far as it is granted.
Bytes peak_of(const RecordedCourse& course) {
  return course.points.empty() ? Bytes() : course.points[course.peak].allocated;
}

/// The most of a phase, and what its end leaves.
struct PhaseUse {
  Bytes peak;
  Bytes end;
  Bytes reserved;
};
PhaseUse use_of(const RecordedPhase& phase, const RecordedCourse& course) {
  PhaseUse use;
  for (std::uint32_t i = phase.begin; i < std::min<std::size_t>(phase.end, course.points.size());
       ++i) {
    const CoursePoint& point = course.points[i];
    use.peak = std::max(use.peak, point.allocated);
    use.reserved = std::max(use.reserved, point.reserved);
    use.end = point.allocated;
  }
  return use;
}

Table phases_of(const RecordedCourse& course) {
  Table table{{{"step"},
               {"phase"},
               {"peak", Align::right},
               {"end", Align::right},
               {"reserved", Align::right}},
              {}};
  for (const RecordedPhase& phase : course.phases) {
    if (phase.begin >= course.points.size()) break;
    const PhaseUse use = use_of(phase, course);
    const bool has_peak = course.peak >= phase.begin && course.peak < phase.end;
    table.rows.push_back({{phase.step == 0 ? "" : std::to_string(phase.step), phase.name,
                           sized_text(use.peak), sized_text(use.end), sized_text(use.reserved)},
                          has_peak ? "▸" : "",
                          has_peak ? Tone::strong : Tone::plain});
  }
  return table;
}

Page page_of(const PlayedRun& run, const RecordedCourse& course, const RecordedMoment& peak) {
  const AllocatorStatistics& end = course.played.end;
  Page page{{Heading{played_name(run)}}};
  if (run.played.failed) {
    page.parts.emplace_back(
        Heading{"Out of memory " + phase_text(phase_of(run.trace, *run.played.failed))});
  } else {
    page.parts.emplace_back(
        Heading{fmt::format("Peak: {} allocated; {} reserved at most", sized_text(peak_of(course)),
                            sized_text(end.reserved.peak))});
  }
  page.parts.emplace_back(
      Chart{"Memory over the requests of the run.",
            "Across go the requests and frees, not the time. The pointer, or the arrow keys, "
            "choose one; a click holds it; the slider shows fewer.",
            [&run, &course] { return drawing_of(run, course); }});
  page.parts.emplace_back(curve_of(curve_over(course)));
  page.parts.emplace_back(Paragraph{fmt::format(
      "The peak stands {}, at event {} (from 0 on, of {}). Held there:", phase_text(peak.phase),
      grouped(course.peak), grouped(static_cast<std::int64_t>(course.events.size())))});
  page.parts.emplace_back(places_table(peak.places));
  page.parts.emplace_back(phases_of(course));
  page.parts.emplace_back(Paragraph{fmt::format(
      "Retries after giving back what the allocator had cached: {}.", grouped(end.retries))});
  for (Part& part : recorded_caveats(run)) page.parts.push_back(std::move(part));
  page.parts.emplace_back(Paragraph{
      "Recorded: the requests are the program's own, through the model of PyTorch's allocator.",
      Tone::faint});
  return page;
}

Json json_of(const PlayedRun& run, const RecordedCourse& course, const RecordedMoment& peak,
             const Question& question) {
  const AllocatorStatistics& end = course.played.end;
  Json json = new_answer();
  json["file"] = run.trace.file;
  put_fits(run, json);
  json["events"] = course.events.size();
  json["allocated_peak_bytes"] = peak_of(course).value();
  json["reserved_peak_bytes"] = end.reserved.peak.value();
  json["retries"] = end.retries;
  json["phases"] = Json::array();
  for (const RecordedPhase& phase : course.phases) {
    if (phase.begin >= course.points.size()) break;
    const PhaseUse use = use_of(phase, course);
    json["phases"].push_back({{"step", phase.step},
                              {"phase", phase.name},
                              {"peak_bytes", use.peak.value()},
                              {"end_bytes", use.end.value()},
                              {"reserved_bytes", use.reserved.value()}});
  }
  json["peak"] = {{"event", course.peak}, {"phase", peak.phase}, {"places", Json::array()}};
  for (const PlaceUse& use : peak.places) {
    json["peak"]["places"].push_back(
        {{"place", use.place}, {"allocations", use.allocations}, {"bytes", use.bytes.value()}});
  }
  if (run.at) add_point(*run.at, json);
  json["provenance"] = {{"method", "replay"}, {"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace

Report report_timeline(const PlayedRun& run, const RecordedCourse& course,
                       const Question& question) {
  const std::size_t event = course.events.empty() ? 0 : course.events[course.peak];
  const RecordedMoment peak = moment_behind(run.trace, event);
  return {page_of(run, course, peak), {}, text_for(question, [&] {
            return json_of(run, course, peak, question);
          })};
}

std::string events_csv(const PlayedRun& run, const RecordedCourse& course) {
  using Cells = std::array<std::string, 9>;
  std::string out;
  append_csv_line(out, Cells{"event", "step", "phase", "place", "kind", "bytes", "allocated_bytes",
                             "reserved_bytes", "stream"});
  PhaseCursor phases(course);
  for (std::uint32_t i = 0; i < course.points.size(); ++i) {
    const TraceEvent& event = event_of(run, course, i);
    const RecordedPhase* phase = phases.at(i);
    const CoursePoint& point = course.points[i];
    append_csv_line(
        out,
        Cells{std::to_string(i), phase == nullptr ? "" : std::to_string(phase->step),
              phase == nullptr ? "" : phase->name, std::string(run.trace.place_of(event.number)),
              event.kind == TraceEventKind::allocate ? "allocate" : "free",
              std::to_string(course.blocks[static_cast<std::size_t>(event.number)].value()),
              std::to_string(point.allocated.value()), std::to_string(point.reserved.value()),
              std::to_string(event.stream)});
  }
  return out;
}

}  // namespace memest
