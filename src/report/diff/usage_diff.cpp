// A spec's estimate beside a log of the memory in use.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "memest/report/diff_report.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/diff/figures.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

constexpr const char* kNoStepsInLog = "a log of the memory in use has no step's seconds";

bool is_within(const UsageComparison& comparison, const UsedMemory& gpu) {
  return comparison.memory.low() <= gpu.peak && gpu.peak <= comparison.memory.high();
}

std::string name_of(const UsedMemory& gpu) {
  return gpu.name.empty() ? "the GPU" : "GPU " + gpu.name;
}

const UsedMemory& fullest(const UsageLog& log) {
  return *std::ranges::max_element(log.gpus, {}, &UsedMemory::peak);
}

std::string summary_of(const UsageComparison& comparison) {
  const UsedMemory& gpu = fullest(comparison.log);
  const Bytes more = gpu.peak - comparison.memory.device();
  const std::string change =
      more == Bytes()
          ? "as much as"
          : fmt::format("{} {} than", sized_text(more > Bytes() ? more : Bytes() - more),
                        more > Bytes() ? "more" : "less");
  return fmt::format("At most {} were in use, {} predicted: {} the interval, {} to {}.",
                     sized_text(gpu.peak), change,
                     is_within(comparison, gpu) ? "within" : "outside of",
                     sized_text(comparison.memory.low()), sized_text(comparison.memory.high()));
}

Table gpu_table(const UsageComparison& comparison) {
  Table table{{{"in use at most"},
               {"predicted", Align::right},
               {"measured", Align::right},
               {"difference", Align::right},
               {"line", Align::right}},
              {}};
  for (const UsedMemory& gpu : comparison.log.gpus) {
    table.rows.push_back(
        {{name_of(gpu), sized_text(comparison.memory.device()), sized_text(gpu.peak),
          signed_text(gpu.peak - comparison.memory.device(), "B"), grouped(gpu.line)},
         "",
         Tone::plain});
  }
  return table;
}

/// A log of another GPU than the spec's.
std::string capacity_text(const UsageComparison& comparison) {
  const UsedMemory& gpu = fullest(comparison.log);
  if (!gpu.capacity) return {};
  const Bytes expected = comparison.job.hardware.gpu.capacity.value;
  // A driver's total is less than the sheet's by what it keeps: a tenth is another card.
  const double share = gpu.capacity->as_double() / expected.as_double();
  if (share > 0.9 && share < 1.1) return {};
  return fmt::format("The log's GPU has {}, the spec's {} has {}.", sized_text(*gpu.capacity),
                     comparison.job.hardware.gpu.slug, sized_text(expected));
}

Page page_of(const UsageComparison& comparison) {
  const bool held = holds(comparison);
  Page page{{Paragraph{summary_of(comparison), held ? Tone::good : Tone::bad}}};
  page.parts.emplace_back(Heading{title_of(comparison.job, comparison.estimate.parameters.total)});
  page.parts.emplace_back(Paragraph{setting_of(comparison.job)});
  page.parts.emplace_back(gpu_table(comparison));
  page.parts.emplace_back(Paragraph{
      fmt::format("Measured by {}, {}: all that is in use, whoever uses it, at the moments that "
                  "were logged; a peak between two of them is not seen. Allocated and reserved "
                  "bytes, tensors and step time: not known, the log has none.",
                  comparison.log.form, comparison.log.file)});
  if (const std::string other = capacity_text(comparison); !other.empty()) {
    page.parts.emplace_back(Paragraph{other, Tone::uncertain});
  }
  if (const auto any = comparison.memory.device_of_any_release()) {
    page.parts.emplace_back(
        Paragraph{fmt::format("Other releases than those that were recorded: {} to {}.",
                              sized_text(any->low), sized_text(any->high)),
                  Tone::faint});
  }
  return page;
}

Table records_of(const UsageComparison& comparison) {
  Table table{{{"gpu"},
               {"predicted_bytes"},
               {"low_bytes"},
               {"high_bytes"},
               {"measured_bytes"},
               {"line"},
               {"samples"}},
              {}};
  const auto digits = [](Bytes bytes) { return to_string(bytes.value()); };
  for (const UsedMemory& gpu : comparison.log.gpus) {
    table.rows.push_back({{gpu.name, digits(comparison.memory.device()),
                           digits(comparison.memory.low()), digits(comparison.memory.high()),
                           digits(gpu.peak), std::to_string(gpu.line), std::to_string(gpu.samples)},
                          "",
                          {}});
  }
  return table;
}

Json json_of(const UsageComparison& comparison, const Question& question) {
  Json json = new_answer();
  json["kind"] = "usage";
  json["summary"] = summary_of(comparison);
  json["file"] = comparison.log.file;
  json["form"] = comparison.log.form;
  json["within_interval"] = holds(comparison);
  put(json, "device_bytes", comparison.memory.device());
  json["interval_bytes"] = {comparison.memory.low().value(), comparison.memory.high().value()};
  json["gpus"] = Json::array();
  for (const UsedMemory& gpu : comparison.log.gpus) {
    json["gpus"].push_back({{"name", gpu.name},
                            {"measured_bytes", gpu.peak.value()},
                            {"difference_bytes", (gpu.peak - comparison.memory.device()).value()},
                            {"within_interval", is_within(comparison, gpu)},
                            {"line", gpu.line},
                            {"samples", gpu.samples}});
  }
  put_null(json, "step_seconds", kNoStepsInLog);
  json["provenance"] = {{"versions", {{"memest", question.version}}}};
  return json;
}

}  // namespace

bool holds(const UsageComparison& comparison) {
  return is_within(comparison, fullest(comparison.log));
}

Report report_diff(const UsageComparison& comparison, const Question& question) {
  return {page_of(comparison),
          records_of(comparison),
          text_for(question, [&] { return json_of(comparison, question); }),
          {{"peak", holds(comparison) ? "within the predicted interval" : "outside of it",
            holds(comparison) ? Tone::good : Tone::bad}},
          "A spec beside " + comparison.log.file};
}

}  // namespace memest
