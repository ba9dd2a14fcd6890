#include "report/record/phases_table.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/spec/recorded/phase_name.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"

namespace memest {
namespace {

constexpr std::size_t kPhasesShown = 10;
/// A step with many micro-batches shows so many of its first phases and of its last.
constexpr std::size_t kEndsOfAStep = 3;

/// "step2" of "step2.backward".
std::string_view step_of_phase(std::string_view phase) {
  const auto name = split_phase(phase);
  return name ? name->step : phase;
}

/// The last marker is behind the last step, of which nothing is told unless the program failed.
bool is_told(const TraceMarker& marker, bool failed) {
  if (marker.name.ends_with(".unfinished")) return failed;
  return marker.name.find('.') != std::string::npos;
}

std::string value_of(const TraceMarker& marker, TracedStatistic statistic) {
  const auto& recorded = marker.statistics[static_cast<std::size_t>(statistic)];
  return recorded ? sized_text(Bytes(*recorded)) : std::string("—");
}

Row row_of(const TraceMarker& marker) {
  return {{marker.name, value_of(marker, TracedStatistic::allocated_bytes),
           value_of(marker, TracedStatistic::reserved_bytes),
           value_of(marker, TracedStatistic::allocated_peak)},
          "",
          {}};
}

using Markers = std::vector<const TraceMarker*>;

/// The first phase at whose end the statistic is the largest; the first of all where none tells.
const TraceMarker* first_with_most(const Markers& markers, TracedStatistic statistic) {
  return *std::ranges::max_element(markers, {}, [statistic](const TraceMarker* marker) {
    return marker->statistics[static_cast<std::size_t>(statistic)].value_or(0);
  });
}

/// Which phases of a run of many are shown.
std::vector<bool> shown_of(const Markers& markers, const std::string& peak_phase) {
  const TraceMarker* allocated = first_with_most(markers, TracedStatistic::allocated_peak);
  const TraceMarker* reserved = first_with_most(markers, TracedStatistic::reserved_peak);
  const std::vector<std::string_view> steps = {
      step_of_phase(markers.front()->name), step_of_phase(peak_phase),
      step_of_phase(reserved->name), step_of_phase(markers.back()->name)};
  std::vector<bool> shown(markers.size(), false);
  for (std::size_t begin = 0; begin < markers.size();) {
    const std::string_view step = step_of_phase(markers[begin]->name);
    std::size_t end = begin;
    while (end < markers.size() && step_of_phase(markers[end]->name) == step) ++end;
    for (std::size_t i = begin; std::ranges::find(steps, step) != steps.end() && i < end; ++i) {
      const bool at_an_end = i < begin + kEndsOfAStep || i + kEndsOfAStep >= end;
      shown[i] = at_an_end || markers[i] == allocated || markers[i] == reserved;
    }
    begin = end;
  }
  return shown;
}

}  // namespace

Table phases_table(const AllocatorTrace& trace, const std::string& peak_phase, bool failed) {
  Table table{{{"until the end of"},
               {"allocated", Align::right},
               {"reserved", Align::right},
               {"peak so far", Align::right}},
              {}};
  Markers markers;
  for (const TraceMarker& marker : trace.markers) {
    if (is_told(marker, failed)) markers.push_back(&marker);
  }
  if (markers.empty()) return table;
  const std::vector<bool> shown = markers.size() > kPhasesShown
                                      ? shown_of(markers, peak_phase)
                                      : std::vector<bool>(markers.size(), true);
  std::int64_t left_out = 0;
  for (std::size_t i = 0; i < markers.size(); ++i) {
    if (!shown[i]) ++left_out;
    const bool ends = i + 1 == markers.size() || shown[i + 1];
    if (!shown[i] && ends) {
      table.rows.push_back({{nouns_text(left_out, "phase") + " left out"}, "", Tone::faint});
      left_out = 0;
    }
    if (shown[i]) table.rows.push_back(row_of(*markers[i]));
  }
  return table;
}

}  // namespace memest
