#include "cli/record/play_recording.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "cli/record/varied_words.hpp"
#include "memest/memory/recorded/family_at.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/family_text.hpp"
#include "memest/reader/residuals.hpp"
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

/// The device that they name in place of the trace's own. The context takes as much of any.
void move_to_device(const PlayedUnder& under, AllocatorTrace& trace) {
  if (under.hardware) {
    const GpuSpec& gpu = under.hardware->gpu;
    trace.device_memory = gpu.capacity.value;
    if (gpu.context) trace.context = gpu.context->value;
  }
  if (under.memory) trace.device_memory = *under.memory;
  if (!under.reservable) return;
  const Bytes asked = *under.reservable + trace.context;
  trace.device_memory = under.hardware ? std::min(asked, trace.device_memory) : asked;
}

PlayedRun played(AllocatorTrace trace, const PlayedUnder& under) {
  PlayedRun run;
  move_to_device(under, trace);
  run.available = available_of(trace);
  run.settings = under.conf.empty() ? trace.settings_text : under.conf;
  run.played = play_requests(trace, under.settings.value_or(trace.settings), run.available);
  run.trace = std::move(trace);
  if (!under.hardware) return run;
  run.gpu = under.hardware->gpu.vendor + " " + under.hardware->gpu.name;
  run.price = under.hardware->price;
  return run;
}

void give_time(const std::optional<RecordedWork>& work, const PlayedUnder& under, PlayedRun& run) {
  if (under.hardware) run.time = time_of(work, *under.hardware, find_source_margins().step);
}

Checked<PlayedRun> played_at(const RecordedFamily& family, const PlayedPoint& at,
                             const PlayedUnder& under) {
  auto instance = trace_at(family, at.point);
  if (const auto* none = std::get_if<NoSize>(&instance)) {
    return without_size(family, *none, " at " + point_text(family.names(), at.point));
  }
  PlayedRun run = played(std::get<AllocatorTrace>(std::move(instance)), under);
  run.rank = family.rank;
  run.reads = family.reads;
  run.masks_keep_all = family.masks_keep_all;
  run.at = at;
  run.at->slack = slack_at(family, at.point);
  if (const auto work = work_at(family, at.point)) {
    give_time(work, under, run);
  } else if (under.hardware && (family.work || !family.no_work.empty())) {
    run.time = Unavailable{family.work ? "its work has no numbers at these sizes" : family.no_work};
  }
  return run;
}

Checked<std::vector<PlayedRun>> play_family(const RecordedFamily& family, const PlayedUnder& under,
                                            const AskedSizes& sizes) {
  Checked<SizePoint> point = read_point(sizes.at, sizes.largest, family.varied);
  if (!point.ok()) return point.diagnostics();
  PlayedPoint at{family.varied, std::move(point).value(), {}};
  std::vector<std::int64_t> values;
  std::size_t varied = 0;
  if (!sizes.largest.empty()) {
    const auto found = std::ranges::find(family.varied, sizes.largest, &VariedSize::name);
    varied = static_cast<std::size_t>(found - family.varied.begin());
    at.largest = varied;
    AllocatorTrace trace = family.trace;
    move_to_device(under, trace);
    const PlayedDevice device{under.settings.value_or(trace.settings), trace.device_memory,
                              available_of(trace)};
    const auto largest = find_largest_size(family, at.point, varied, device);
    if (const auto* none = std::get_if<NoSize>(&largest)) {
      return without_size(family, *none, " at a " + sizes.largest + " that was tried");
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
    Checked<PlayedRun> run = played_at(family, at, under);
    if (!run.ok()) return run.diagnostics();
    runs.push_back(std::move(run).value());
  }
  return runs;
}

}  // namespace

Checked<std::vector<PlayedRun>> played_runs(const std::variant<Recording, RecordedFamily>& recorded,
                                            const PlayedUnder& under, const AskedSizes& sizes) {
  if (const auto* family = std::get_if<RecordedFamily>(&recorded)) {
    return play_family(*family, under, sizes);
  }
  const auto& recording = std::get<Recording>(recorded);
  if (!sizes.at.empty() || !sizes.largest.empty()) {
    return Diagnostic{Severity::error,
                      {},
                      "'" + recording.trace.file +
                          "' has sizes of its own: --at and --largest have no use for it",
                      "memest record --vary writes recordings for many sizes"};
  }
  std::vector<PlayedRun> runs{played(recording.trace, under)};
  runs.front().rank = recording.rank;
  runs.front().whole = is_whole(recording);
  runs.front().reads = recording.reads;
  runs.front().masks_keep_all = recording.masks_keep_all;
  give_time(recording.work, under, runs.front());
  return runs;
}

Hardware hardware_of(GpuSpec gpu) {
  Hardware hardware;
  hardware.gpu = std::move(gpu);
  if (const auto listed = find_price(hardware.gpu.slug)) hardware.price = listed->price;
  return hardware;
}

ExitCode code_of(const PlayedRun& run) {
  const auto fitting = fits(run);
  if (!fitting) return ExitCode::not_known;
  return *fitting ? ExitCode::yes : ExitCode::no;
}

Bytes recorded_memory(const RecordedJob& job) {
  const auto* recording = std::get_if<Recording>(&job.recorded);
  return recording != nullptr ? recording->trace.device_memory
                              : std::get<RecordedFamily>(job.recorded).trace.device_memory;
}

PlayedUnder under_of(const RecordedJob& job) {
  PlayedUnder under;
  under.settings = job.settings;
  under.conf = job.conf;
  under.reservable = job.hardware.memory;
  if (!job.hardware.assumed) under.hardware = job.hardware;
  // The device that was recorded may have had another memory than its type: --memory.
  if (!job.hardware.assumed && !job.names_gpu) under.memory = recorded_memory(job);
  return under;
}

}  // namespace memest
