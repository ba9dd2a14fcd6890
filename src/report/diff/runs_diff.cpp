#include "memest/report/record/runs_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <variant>
#include <vector>

#include "memest/memory/recorded_use.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/places_table.hpp"

namespace memest {
namespace {

constexpr std::size_t kMovedShown = 12;

/// A number of both runs; absent where a run has none.
struct RunFigure {
  const char* name;
  const char* key;
  std::optional<double> a;
  std::optional<double> b;
  std::string (*text)(double);
};

std::string bytes_as_text(double bytes) { return sized_text(Bytes(std::llround(bytes))); }
std::string seconds_as_text(double seconds) { return seconds_text(Seconds(seconds)); }
std::string flops_as_text(double flops) { return flops_text(Flops(static_cast<Int128>(flops))); }
std::string count_as_text(double count) { return grouped(std::llround(count)); }

std::optional<double> optional_bytes(const std::optional<Bytes>& bytes) {
  return bytes ? std::optional(bytes->as_double()) : std::nullopt;
}

template <class Read>
std::optional<double> of_time(const ComparedRun& run, const Read& read) {
  const auto* time = std::get_if<RecordedTime>(&run.time);
  return time == nullptr ? std::nullopt : std::optional<double>(read(*time));
}

std::vector<RunFigure> figures_of(const RunsComparison& comparison) {
  const ComparedRun& a = comparison.a;
  const ComparedRun& b = comparison.b;
  const auto flops = [](const RecordedTime& time) { return time.flops.as_double(); };
  const auto launches = [](const RecordedTime& time) { return static_cast<double>(time.launches); };
  const auto step = [](const RecordedTime& time) { return time.step.value(); };
  return {{"allocated", "allocated_peak_bytes", a.peaks.allocated.as_double(),
           b.peaks.allocated.as_double(), bytes_as_text},
          {"reserved", "reserved_peak_bytes", optional_bytes(a.peaks.reserved),
           optional_bytes(b.peaks.reserved), bytes_as_text},
          {"on the device", "device_peak_bytes", optional_bytes(a.device_peak),
           optional_bytes(b.device_peak), bytes_as_text},
          {"FLOPs of a step", "flops", of_time(a, flops), of_time(b, flops), flops_as_text},
          {"kernels, messages, copies", "launches", of_time(a, launches), of_time(b, launches),
           count_as_text},
          {"a step", "step_seconds", of_time(a, step), of_time(b, step), seconds_as_text}};
}

/// "+1.5 GiB", "-12 ms", "="; nothing where a side has no number.
std::string difference_text(const RunFigure& figure) {
  if (!figure.a || !figure.b) return "";
  const double difference = *figure.b - *figure.a;
  if (difference == 0) return "=";
  return (difference > 0 ? "+" : "-") + figure.text(std::abs(difference));
}

Table figures_table(const RunsComparison& comparison) {
  Table table{{{"at most"},
               {comparison.a.file, Align::right},
               {comparison.b.file, Align::right},
               {"", Align::right}},
              {}};
  const auto text = [](const RunFigure& figure, const std::optional<double>& number) {
    return number ? figure.text(*number) : std::string("—");
  };
  for (const RunFigure& figure : figures_of(comparison)) {
    if (!figure.a && !figure.b) continue;
    const std::string difference = difference_text(figure);
    if (difference == "=" && !comparison.every_row) continue;
    table.rows.push_back(
        {{figure.name, text(figure, figure.a), text(figure, figure.b), difference}, "", {}});
  }
  return table;
}

/// "train.py main" of "train.py:40 main": an edit above a line moves it.
std::string place_without_line(const std::string& place) {
  std::string text;
  for (std::size_t at = 0; at < place.size(); ++at) {
    const bool is_digit_behind =
        at + 1 < place.size() && place[at + 1] >= '0' && place[at + 1] <= '9';
    if (place[at] != ':' || !is_digit_behind) {
      text += place[at];
      continue;
    }
    while (at + 1 < place.size() && place[at + 1] >= '0' && place[at + 1] <= '9') ++at;
  }
  return text;
}

struct MovedPlace {
  std::string place;
  Bytes a;
  Bytes b;
  [[nodiscard]] Bytes difference() const { return b - a; }
};

/// Places that hold another size at the peak, the largest difference first.
std::vector<MovedPlace> moved_places(const RunsComparison& comparison) {
  std::map<std::string, MovedPlace> places;
  const auto add = [&](const ComparedRun& run, const ComparedRun& other, Bytes MovedPlace::*side) {
    for (const PlaceUse& use : run.peak.places) {
      const bool is_in_both = std::ranges::find(other.peak.places, use.place, &PlaceUse::place) !=
                              other.peak.places.end();
      places[is_in_both ? use.place : place_without_line(use.place)].*side += use.bytes;
    }
  };
  add(comparison.a, comparison.b, &MovedPlace::a);
  add(comparison.b, comparison.a, &MovedPlace::b);
  std::vector<MovedPlace> moved;
  for (auto& [name, place] : places) {
    place.place = name;
    if (place.a != place.b || comparison.every_row) moved.push_back(place);
  }
  std::ranges::stable_sort(moved, std::ranges::greater(), [](const MovedPlace& place) {
    return std::abs(place.difference().value());
  });
  return moved;
}

Table places_moved(const std::vector<MovedPlace>& moved, const RunsComparison& comparison) {
  Table table{{{"held at the peak by"},
               {comparison.a.file, Align::right},
               {comparison.b.file, Align::right},
               {"", Align::right}},
              {}};
  for (const MovedPlace& place : moved) {
    if (table.rows.size() == kMovedShown && !comparison.every_row) break;
    const Bytes difference = place.difference();
    const std::string sign = difference > Bytes() ? "+" : "-";
    const std::string text =
        difference == Bytes() ? "=" : sign + sized_text(Bytes(std::abs(difference.value())));
    table.rows.push_back(
        {{asking_text(place.place), sized_text(place.a), sized_text(place.b), text}, "", {}});
  }
  return table;
}

std::string sentence_of(const RunsComparison& comparison) {
  if (fits_no_more(comparison)) return comparison.b.file + " runs out of memory";
  if (comparison.a.ran_out && comparison.b.ran_out) return "both run out of memory";
  if (comparison.a.ran_out) return comparison.a.file + " runs out of memory";
  const Bytes difference = comparison.b.peaks.allocated - comparison.a.peaks.allocated;
  if (difference == Bytes()) return "both allocate " + sized_text(comparison.a.peaks.allocated);
  return fmt::format("{} allocates {} {}", comparison.b.file,
                     sized_text(Bytes(std::abs(difference.value()))),
                     difference > Bytes() ? "more" : "less");
}

Page page_of(const RunsComparison& comparison, const std::vector<MovedPlace>& moved) {
  Page page{{Heading{sentence_of(comparison)}}};
  if (Table figures = figures_table(comparison); !figures.rows.empty()) {
    page.parts.emplace_back(std::move(figures));
  }
  if (!moved.empty()) page.parts.emplace_back(places_moved(moved, comparison));
  if (moved.size() > kMovedShown && !comparison.every_row) {
    page.parts.emplace_back(
        Paragraph{nouns_text(static_cast<std::int64_t>(moved.size() - kMovedShown), "other place") +
                      " differ: -v shows them.",
                  Tone::faint});
  }
  if (!comparison.gpu.empty()) {
    page.parts.emplace_back(Paragraph{"Steps are timed on " + comparison.gpu + ".", Tone::faint});
  }
  return page;
}

Json json_of(const ComparedRun& run) {
  return {{"file", run.file}, {"ran_out", run.ran_out}, {"peak_phase", run.peak.phase}};
}

Json json_of(const RunsComparison& comparison, const std::vector<MovedPlace>& moved) {
  Json json = new_answer();
  json["kind"] = "runs";
  json["summary"] = sentence_of(comparison);
  json["a"] = json_of(comparison.a);
  json["b"] = json_of(comparison.b);
  if (!comparison.gpu.empty()) json["gpu"] = comparison.gpu;
  json["figures"] = Json::array();
  for (const RunFigure& figure : figures_of(comparison)) {
    Json row{{"name", figure.key}};
    if (figure.a) row["a"] = *figure.a;
    if (figure.b) row["b"] = *figure.b;
    json["figures"].push_back(std::move(row));
  }
  json["places"] = Json::array();
  for (const MovedPlace& place : moved) {
    json["places"].push_back(
        {{"place", place.place}, {"a_bytes", place.a.value()}, {"b_bytes", place.b.value()}});
  }
  return json;
}

}  // namespace

ComparedRun compared_run(const Recording& recording, RecordedStepTime time) {
  ComparedRun run{.file = recording.trace.file,
                  .peaks = peaks_of(recording.trace),
                  .device_peak = recording.device_peak,
                  .peak = peak_moment(recording.trace),
                  .ran_out = failure_of(recording.trace).has_value(),
                  .time = std::move(time)};
  if (run.device_peak) *run.device_peak += recording.trace.context;
  return run;
}

bool fits_no_more(const RunsComparison& comparison) {
  return comparison.b.ran_out && !comparison.a.ran_out;
}

Report report_diff(const RunsComparison& comparison, const Question& question) {
  const std::vector<MovedPlace> moved = moved_places(comparison);
  return {
      page_of(comparison, moved), places_moved(moved, comparison), text_for(question, [&] {
        Json json = json_of(comparison, moved);
        json["provenance"] = {{"method", "record"}, {"versions", {{"memest", question.version}}}};
        return json;
      })};
}

}  // namespace memest
