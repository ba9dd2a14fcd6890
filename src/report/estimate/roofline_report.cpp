#include "memest/report/roofline_report.hpp"

#include <fmt/format.h>

#include <string>
#include <variant>

#include "memest/graph/parameters.hpp"
#include "memest/report/numbers.hpp"
#include "report/estimate/roofline_chart.hpp"
#include "report/pages/json.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

Table table_of(const TimeEstimate& time, const Roof& roof) {
  Table table{{{"operation"},
               {"FLOP/B", Align::right},
               {"bound by"},
               {"reaches", Align::right},
               {"of its roof", Align::right},
               {"seconds", Align::right},
               {"of the step", Align::right}},
              {}};
  for (const OpTime& op : kernels_of(time)) {
    table.rows.push_back(
        {{name_of(op), significant_text(op.flops / op.bytes), std::string(name_of(op.bound)),
          reached_text(op), percent_text(share_of_roof(op, roof)), seconds_text(op.seconds),
          percent_text(op.seconds / time.step)},
         "",
         Tone::plain});
  }
  return table;
}

Json json_of(const Job& job, const TimeEstimate& time, const Question& question) {
  const Roof roof = roof_of(job, time);
  Json json = {{"format_version", kFormatVersion},     {"memest", question.version},
               {"gpu", job.hardware.gpu.slug},         {"peak_flops_per_second", roof.peak},
               {"bytes_per_second", roof.bandwidth},   {"ridge_point", time.ridge_point},
               {"provenance", text_of(time.origin())}, {"operations", Json::array()}};
  for (const OpTime& op : kernels_of(time)) {
    json["operations"].push_back({{"name", name_of(op)},
                                  {"class", name_of(op.op_class)},
                                  {"bound", name_of(op.bound)},
                                  {"flops", op.flops},
                                  {"bytes", op.bytes},
                                  {"seconds", op.seconds.value()},
                                  {"share_of_roof", share_of_roof(op, roof)}});
  }
  return json;
}

}  // namespace

Report report_roofline(const Job& job, const TimeEstimate& time, const Question& question) {
  const Roof roof = roof_of(job, time);
  Report report;
  report.page.parts.emplace_back(Heading{"Roofline"});
  report.page.parts.emplace_back(Paragraph{
      fmt::format("{} {} and {} meet at {} FLOP/B: what moves more for its FLOPs is bound by "
                  "memory, what moves less by compute.",
                  job.hardware.gpu.name + ":", rate_text(FlopsPerSecond(roof.peak)),
                  rate_text(BytesPerSecond(roof.bandwidth)), significant_text(time.ridge_point)),
      Tone::strong});
  report.page.parts.emplace_back(roofline_chart(job, time));
  report.records = table_of(time, roof);
  report.page.parts.emplace_back(report.records);
  report.page.parts.emplace_back(Paragraph{
      fmt::format(
          "FLOPs and bytes of all passes of a step, over the time that is expected of them. "
          "Rates: {}.",
          time.rule),
      Tone::faint});
  report.page.parts.emplace_back(Paragraph{provenance_text(job), Tone::faint});
  report.title = title_of(job, count_parameters(job.model).total);
  report.json = text_for(question, [&] { return json_of(job, time, question); });
  return report;
}

std::string roofline_svg(const Job& job, const TimeEstimate& time) {
  return svg_of(std::get<MarkChart>(roofline_chart(job, time).draw()));
}

}  // namespace memest
