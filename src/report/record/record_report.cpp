#include "memest/report/record_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"
#include "report/record/module_tables.hpp"
#include "report/record/phase_text.hpp"
#include "report/record/phases_table.hpp"
#include "report/record/places_table.hpp"
#include "report/record/reads_text.hpp"
#include "report/record/record_json.hpp"
#include "report/record/work_report.hpp"

namespace memest {
namespace {

constexpr std::size_t kGrowingShown = 5;

std::string sizes_text(const ProgramRun& program, const ProcessRun& process) {
  std::string text = sized_text(process.peaks.allocated) + " allocated";
  if (process.peaks.reserved) text += ", " + sized_text(*process.peaks.reserved) + " reserved";
  if (const auto device = device_peak_of(program, process)) {
    text += ", " + sized_text(*device) + " on the device";
  }
  return text;
}

Heading heading_of(const ProgramRun& program, const ProcessRun& process) {
  std::string who;
  if (!process.recording.rank.empty()) who = "rank " + process.recording.rank + ": ";
  if (process.device) {
    who += fmt::format("device {} (cuda:{}): ", process.device->text(), process.device->index);
  }
  const std::string verdict = ran_out(program)           ? "does not fit in"
                              : came_to_its_end(program) ? "fits in"
                                                         : "until it failed, of";
  return {fmt::format("{}{}: {} {}, {}", who, sizes_text(program, process), verdict,
                      sized_text(program.capacity), program.gpu)};
}

std::string failure_text(const RecordedFailure& failure) {
  std::string text =
      fmt::format("Out of memory {}: {} asks for {} where {} are allocated and {} reserved.",
                  phase_text(failure.phase), asking_text(failure.place), sized_text(failure.size),
                  sized_text(failure.allocated), sized_text(failure.reserved));
  if (failure.fits_expandable) {
    text += *failure.fits_expandable
                ? " With PYTORCH_ALLOC_CONF=expandable_segments:True it would have fitted here."
                : " Expandable segments do not mend it.";
  }
  return text + " --memory 1TiB records what the whole run needs.";
}

/// Places that hold more behind every step.
std::vector<Part> growth_of(const ProcessRun& process) {
  if (process.growing.empty()) return {};
  std::string text;
  for (std::size_t i = 0; i < std::min(process.growing.size(), kGrowingShown); ++i) {
    const PlaceGrowth& growth = process.growing[i];
    text += (i == 0 ? "" : ", ") + asking_text(growth.place) + " by " + sized_text(growth.a_step);
  }
  return {Paragraph{
      "Memory grows from step to step: " + text + ". A run of many steps takes more than this one.",
      Tone::bad}};
}

void add_process(const ProgramRun& program, const ProcessRun& process, Page& page) {
  page.parts.emplace_back(heading_of(program, process));
  if (process.failure) {
    page.parts.emplace_back(
        Paragraph{failure_text(*process.failure), ran_out(program) ? Tone::bad : Tone::uncertain});
  }
  page.parts.emplace_back(
      Paragraph{fmt::format("At the peak, {}:", phase_text(process.peak.phase)), Tone::plain});
  page.parts.emplace_back(places_table(process.peak.places));
  if (Table phases =
          phases_table(process.recording.trace, process.peak.phase, !came_to_its_end(program));
      !phases.rows.empty()) {
    page.parts.emplace_back(std::move(phases));
  }
  for (Part& part : kept_parts(process.kept, process.recording.trace)) {
    page.parts.push_back(std::move(part));
  }
  for (Part& part : growth_of(process)) page.parts.push_back(std::move(part));
  for (Part& part : time_parts(process.time, program.gpu)) page.parts.push_back(std::move(part));
  if (const std::string assumed = assumptions_text(process.recording.reads); !assumed.empty()) {
    page.parts.emplace_back(Paragraph{assumed, Tone::faint});
  }
}

/// How the program ended, where that is not by itself.
std::vector<Part> endings_of(const ProgramRun& program) {
  std::vector<Part> parts;
  if (program.processes.empty()) {
    parts.emplace_back(Paragraph{
        "No process of the program used a GPU through PyTorch: nothing was recorded.", Tone::bad});
  }
  if (!came_to_its_end(program)) {
    parts.emplace_back(Paragraph{fmt::format("The program ended with exit code {}; what is said "
                                             "here is what it took until then.",
                                             program.exit_code),
                                 Tone::bad});
  }
  if (program.masks_keep_all) {
    parts.emplace_back(Paragraph{kMasksText, Tone::uncertain});
  }
  for (const std::string& size : program.taken_as_0) {
    parts.emplace_back(Paragraph{size + " are not known, and taken as 0: a GPU may reserve more.",
                                 Tone::uncertain});
  }
  if (!program.unanswered.empty()) {
    std::string names;
    for (const std::string& name : program.unanswered) names += (names.empty() ? "" : ", ") + name;
    parts.emplace_back(Paragraph{
        "The program called what the null device does not know, and was told that it is not "
        "supported: " +
            names + ".",
        Tone::uncertain});
  }
  return parts;
}

Table records_of(const ProgramRun& program) {
  Table table{{{"rank"}, {"device"}, {"place"}, {"allocations"}, {"bytes"}}, {}};
  for (const ProcessRun& process : program.processes) {
    for (const PlaceUse& use : process.peak.places) {
      table.rows.push_back(
          {{process.recording.rank, process.device ? process.device->text() : "", use.place,
            std::to_string(use.allocations), std::to_string(use.bytes.value())},
           "",
           {}});
    }
  }
  return table;
}

}  // namespace

bool came_to_its_end(const ProgramRun& program) { return program.exit_code == 0; }

bool ran_out(const ProgramRun& program) {
  return !came_to_its_end(program) &&
         std::ranges::any_of(program.processes,
                             [](const ProcessRun& process) { return process.failure.has_value(); });
}

std::optional<Bytes> device_peak_of(const ProgramRun& program, const ProcessRun& process) {
  const auto& own = process.recording.device_peak;
  return own ? std::optional(*own + program.context) : std::nullopt;
}

Report report_recording(const ProgramRun& program, const Question& question) {
  Page page;
  for (const ProcessRun& process : program.processes) add_process(program, process, page);
  for (Part& part : endings_of(program)) page.parts.push_back(std::move(part));
  return {std::move(page), records_of(program), recording_json(program, question)};
}

}  // namespace memest
