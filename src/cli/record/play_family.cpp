#include "cli/record/play_family.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "cli/record/varied_words.hpp"
#include "memest/memory/recorded/family_at.hpp"
#include "memest/report/record/family_report.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

Bytes available_of(const AllocatorTrace& trace) {
  return trace.context < trace.device_memory ? trace.available() : Bytes();
}

Diagnostic without_size(const RecordedFamily& family, const NoSize& none, const std::string& at) {
  const auto index = static_cast<std::size_t>(none.allocation);
  const std::string_view place = family.trace.place_of(none.allocation);
  const std::string formula = family.formulas[family.formula_of[index]].text(family.names());
  const std::string gives =
      none.value ? "gives " + grouped(*none.value) + " B" : "gives no size that a request can have";
  return {Severity::error,
          {},
          "the formula " + formula + " of allocation " + std::to_string(none.allocation) +
              (place.empty() ? "" : " at " + std::string(place)) + " " + gives + at,
          "the program was recorded at other sizes: memest record --vary records it at these",
          true};
}

Checked<PlayedRun> played_at(const RecordedFamily& family, const PlayedPoint& at,
                             const PlayedUnder& under, const std::string& conf) {
  auto instance = trace_at(family, at.point);
  if (const auto* none = std::get_if<NoSize>(&instance)) {
    return without_size(family, *none, " at " + point_text(family.names(), at.point));
  }
  PlayedRun run = played(std::get<AllocatorTrace>(std::move(instance)), under, conf);
  run.at = at;
  run.at->slack = slack_at(family, at.point);
  return run;
}

}  // namespace

void move_to_device(const PlayedUnder& under, AllocatorTrace& trace) {
  if (under.gpu) {
    trace.device_memory = under.gpu->capacity.value;
    if (under.gpu->context) trace.context = under.gpu->context->value;
  }
  // The context takes as much of another device.
  if (under.memory) trace.device_memory = *under.memory;
}

PlayedRun played(AllocatorTrace trace, const PlayedUnder& under, const std::string& conf) {
  PlayedRun run;
  move_to_device(under, trace);
  if (under.gpu) run.gpu = under.gpu->vendor + " " + under.gpu->name;
  run.available = available_of(trace);
  run.settings = conf.empty() ? trace.settings_text : conf;
  run.played = play_requests(trace, under.settings.value_or(trace.settings), run.available);
  run.trace = std::move(trace);
  return run;
}

Checked<std::vector<PlayedRun>> play_family(const RecordedFamily& family, const PlayedUnder& under,
                                            const Arguments& arguments) {
  Checked<SizePoint> point = read_point(arguments.at, arguments.largest_size, family.varied);
  if (!point.ok()) return point.diagnostics();
  PlayedPoint at{family.varied, std::move(point).value(), {}};
  std::vector<std::int64_t> values;
  std::size_t varied = 0;
  if (!arguments.largest_size.empty()) {
    const auto found = std::ranges::find(family.varied, arguments.largest_size, &VariedSize::name);
    varied = static_cast<std::size_t>(found - family.varied.begin());
    at.largest = varied;
    AllocatorTrace trace = family.trace;
    move_to_device(under, trace);
    const PlayedDevice device{under.settings.value_or(trace.settings), trace.device_memory,
                              available_of(trace)};
    const auto largest = find_largest_size(family, at.point, varied, device);
    if (const auto* none = std::get_if<NoSize>(&largest)) {
      return without_size(family, *none, " at a " + arguments.largest_size + " that was tried");
    }
    const auto& found_sizes = std::get<LargestSize>(largest);
    if (found_sizes.value) values.push_back(*found_sizes.value);
    if (found_sizes.next) values.push_back(*found_sizes.next);
  } else {
    values.push_back(at.point[varied]);
  }
  std::vector<PlayedRun> runs;
  for (const std::int64_t value : values) {
    at.point[varied] = value;
    at.is_next = !runs.empty();
    Checked<PlayedRun> run = played_at(family, at, under, arguments.conf);
    if (!run.ok()) return run.diagnostics();
    runs.push_back(std::move(run).value());
  }
  return runs;
}

}  // namespace memest
