#include "memest/report/roofline_report.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "report/estimate/roofline_chart.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

Table table_of(const Roofline& roofline) {
  Table table{{{"operation"},
               {"FLOP/B", Align::right},
               {"bound by"},
               {"reaches", Align::right},
               {"of its roof", Align::right},
               {"seconds", Align::right},
               {"of the step", Align::right}},
              {}};
  for (const RoofedWork& work : roofline.work) {
    table.rows.push_back(
        {{work.name, significant_text(work.flops / work.bytes), std::string(work.bound),
          reached_text(work), percent_text(share_of_roof(work, roofline.roof)),
          seconds_text(work.seconds), percent_text(work.seconds / roofline.step)},
         "",
         Tone::plain});
  }
  return table;
}

Json json_of(const Roofline& roofline, const GpuSpec& gpu, const LawOrigin& origin,
             const Question& question) {
  const Roof& roof = roofline.roof;
  Json json = {{"format_version", kFormatVersion},
               {"memest", question.version},
               {"gpu", gpu.slug},
               {"peak_flops_per_second", roof.peak},
               {"bytes_per_second", roof.bandwidth},
               {"ridge_point", roof.ridge()},
               {"provenance", text_of(origin)},
               {"operations", Json::array()}};
  for (const RoofedWork& work : roofline.work) {
    json["operations"].push_back({{"name", work.name},
                                  {"class", work.kind},
                                  {"bound", work.bound},
                                  {"flops", work.flops},
                                  {"bytes", work.bytes},
                                  {"seconds", work.seconds.value()},
                                  {"share_of_roof", share_of_roof(work, roof)}});
  }
  return json;
}

/// All but how the rates are known, which is the last paragraph of each.
Report report_of(const Roofline& roofline, const GpuSpec& gpu) {
  Report report;
  report.page.parts.emplace_back(Heading{"Roofline"});
  report.page.parts.emplace_back(Paragraph{
      fmt::format("{} {} and {} meet at {} FLOP/B: what moves more for its FLOPs is bound by "
                  "memory, what moves less by compute.",
                  gpu.name + ":", rate_text(FlopsPerSecond(roofline.roof.peak)),
                  rate_text(BytesPerSecond(roofline.roof.bandwidth)),
                  significant_text(roofline.roof.ridge())),
      Tone::strong});
  report.page.parts.emplace_back(roofline_chart(roofline));
  report.records = table_of(roofline);
  report.page.parts.emplace_back(report.records);
  return report;
}

std::string roofline_drawing(Roofline roofline) {
  return svg_of(std::get<MarkChart>(roofline_chart(std::move(roofline)).draw()));
}

}  // namespace

Report report_roofline(const Job& job, const TimeEstimate& time, const Question& question) {
  const Roofline roofline = roofline_of(job, time);
  Report report = report_of(roofline, job.hardware.gpu);
  report.page.parts.emplace_back(Paragraph{
      fmt::format(
          "FLOPs and bytes of all passes of a step, over the time that is expected of them. "
          "Rates: {}.",
          time.rule),
      Tone::faint});
  report.page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  report.title = title_of(job, count_parameters(job).total);
  report.json = text_for(
      question, [&] { return json_of(roofline, job.hardware.gpu, time.origin(), question); });
  return report;
}

Report report_roofline(const GpuSpec& gpu, const RecordedTime& time, const Question& question) {
  const Roofline roofline = roofline_of(gpu, time);
  Report report = report_of(roofline, gpu);
  report.page.parts.emplace_back(
      Paragraph{fmt::format("FLOPs and bytes of {} as it was recorded, by operator, over the time "
                            "that is expected of them. Rates: {}.",
                            time.of, text_of(time.origin)),
                Tone::faint});
  report.json = text_for(question, [&] { return json_of(roofline, gpu, time.origin, question); });
  return report;
}

std::string roofline_svg(const Job& job, const TimeEstimate& time) {
  return roofline_drawing(roofline_of(job, time));
}

std::string roofline_svg(const GpuSpec& gpu, const RecordedTime& time) {
  return roofline_drawing(roofline_of(gpu, time));
}

}  // namespace memest
