#include "memest/report/gpus/selftest_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

const Ceiling* ceiling_of(const SelftestAnswer& answer, const KernelShape& shape) {
  const std::string kernel = ceiling_name(shape);
  const auto found =
      std::find_if(answer.ceilings.begin(), answer.ceilings.end(),
                   [&kernel](const Ceiling& ceiling) { return ceiling.kernel == kernel; });
  return found == answer.ceilings.end() ? nullptr : &*found;
}

std::string rate_of(const KernelShape& shape, double rate) {
  return std::holds_alternative<MatmulShape>(shape) ? rate_text(FlopsPerSecond(rate))
                                                    : rate_text(BytesPerSecond(rate));
}

/// "97 %", "97 % of at least 95 %"; a dash where there is none.
std::string share_text(const std::optional<double>& share, const std::optional<double>& target) {
  if (!share) return "–";
  const std::string text = percent_text(*share);
  return target ? fmt::format("{} (≥ {})", text, percent_text(*target)) : text;
}

Row result_row(bool failed, std::vector<std::string> cells) {
  if (!failed) return {std::move(cells), "", Tone::plain};
  return {std::move(cells), "✗", Tone::bad};
}

Table checks_table(const Selftest& selftest) {
  Table table{
      {{"kernel that differs"}, {"result"}, {"by", Align::right}, {"allowed", Align::right}}, {}};
  for (const KernelVerdict& verdict : selftest.kernels) {
    for (const KernelCheck& check : verdict.checks) {
      if (check.passed()) continue;
      table.rows.push_back(
          result_row(true, {text_of(verdict.shape), check.result, significant_text(check.error),
                            significant_text(check.tolerance)}));
    }
  }
  return table;
}

Table ruler_table(const Selftest& selftest) {
  Table table{{{"ruler: busy for", Align::right}, {"measured", Align::right}}, {}};
  for (const RulerVerdict& verdict : selftest.ruler) {
    table.rows.push_back(
        result_row(selftest.judges_times && !verdict.passed(),
                   {seconds_text(verdict.asked), seconds_text(verdict.measured.median)}));
  }
  return table;
}

Table rates_table(const SelftestAnswer& answer) {
  Table table{{{"kernel"},
               {"rate", Align::right},
               {"of the copy", Align::right},
               {"of the datasheet", Align::right},
               {"published", Align::right},
               {"of that", Align::right}},
              {}};
  for (const RateVerdict& verdict : answer.selftest.rates) {
    const Ceiling* ceiling = ceiling_of(answer, verdict.shape);
    table.rows.push_back(
        result_row(answer.selftest.judges_times && !verdict.passed(),
                   {text_of(verdict.shape), rate_of(verdict.shape, verdict.rate),
                    share_text(verdict.share_of_copy, verdict.target),
                    share_text(verdict.share_of_datasheet, verdict.datasheet_target),
                    ceiling == nullptr ? "–" : rate_of(verdict.shape, ceiling->rate),
                    ceiling == nullptr ? "–" : percent_text(verdict.rate / ceiling->rate)}));
  }
  return table;
}

std::size_t failed_checks(const Selftest& selftest) {
  return static_cast<std::size_t>(
      std::count_if(selftest.kernels.begin(), selftest.kernels.end(),
                    [](const KernelVerdict& verdict) { return !verdict.passed(); }));
}

std::string checks_sentence(const Selftest& selftest) {
  return fmt::format(
      "Kernels checked at small shapes against double precision: {}, of which {} differ.",
      selftest.kernels.size(), failed_checks(selftest));
}

/// Rates that no device can have; empty where there are none.
std::string impossible_sentence(const Selftest& selftest) {
  std::string names;
  for (const RateVerdict& verdict : selftest.rates) {
    if (verdict.possible()) continue;
    names += (names.empty() ? "" : ", ") + text_of(verdict.shape);
  }
  if (names.empty()) return "";
  return "Faster than the device can be at the clock that was seen, so the measurement is "
         "broken: " +
         names + ".";
}

void add_sources(const SelftestAnswer& answer, Page& page) {
  Table table{{{"published"}, {"conditions"}, {"source"}}, {}};
  for (const RateVerdict& verdict : answer.selftest.rates) {
    const Ceiling* ceiling = ceiling_of(answer, verdict.shape);
    if (ceiling == nullptr) continue;
    const bool known = std::any_of(table.rows.begin(), table.rows.end(), [&](const Row& row) {
      return row.cells.front() == ceiling->kernel;
    });
    if (known) continue;
    table.rows.push_back(
        {{ceiling->kernel, ceiling->conditions, ceiling->source}, "", Tone::faint});
  }
  if (!table.rows.empty()) page.parts.emplace_back(std::move(table));
}

/// Only what is known stands there.
void set_if(Json& json, const char* key, const std::optional<double>& value) {
  if (value) json[key] = *value;
}

Json json_of(const SelftestAnswer& answer, const Question& question) {
  const Selftest& selftest = answer.selftest;
  Json json = {{"format_version", kFormatVersion},
               {"memest", question.version},
               {"device", answer.device},
               {"gpu", answer.gpu},
               {"passed", selftest.passed()},
               {"judges_times", selftest.judges_times},
               {"kernels", Json::array()},
               {"ruler", Json::array()},
               {"rates", Json::array()}};
  for (const KernelVerdict& verdict : selftest.kernels) {
    Json checks = Json::array();
    for (const KernelCheck& check : verdict.checks) {
      checks.push_back({{"result", check.result},
                        {"error", check.error},
                        {"tolerance", check.tolerance},
                        {"passed", check.passed()}});
    }
    json["kernels"].push_back({{"kernel", text_of(verdict.shape)},
                               {"passed", verdict.passed()},
                               {"checks", std::move(checks)}});
  }
  for (const RulerVerdict& verdict : selftest.ruler) {
    json["ruler"].push_back({{"asked_seconds", verdict.asked.value()},
                             {"measured_seconds", verdict.measured.median.value()},
                             {"passed", verdict.passed()}});
  }
  for (const RateVerdict& verdict : selftest.rates) {
    Json row = {{"kernel", text_of(verdict.shape)},
                {"seconds", verdict.measured.median.value()},
                {"rate", verdict.rate},
                {"unit", std::holds_alternative<MatmulShape>(verdict.shape) ? "FLOP/s" : "B/s"},
                {"passed", verdict.passed()}};
    set_if(row, "share_of_copy", verdict.share_of_copy);
    set_if(row, "target", verdict.target);
    set_if(row, "share_of_datasheet", verdict.share_of_datasheet);
    set_if(row, "datasheet_target", verdict.datasheet_target);
    set_if(row, "utilization", verdict.utilization);
    if (const Ceiling* ceiling = ceiling_of(answer, verdict.shape)) {
      row["published"] = {{"rate", ceiling->rate},
                          {"ratio", verdict.rate / ceiling->rate},
                          {"conditions", ceiling->conditions},
                          {"source", ceiling->source},
                          {"license", ceiling->license}};
    }
    json["rates"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

Report report_selftest(const SelftestAnswer& answer, const Question& question) {
  const Selftest& selftest = answer.selftest;
  Report report;
  const auto add = [&report](auto part) { report.page.parts.emplace_back(std::move(part)); };
  add(Heading{answer.device});
  add(Paragraph{selftest.passed() ? "Passed." : "Failed.",
                selftest.passed() ? Tone::good : Tone::bad});
  add(Paragraph{checks_sentence(selftest)});
  if (failed_checks(selftest) > 0) add(checks_table(selftest));
  if (!selftest.judges_times) {
    add(Paragraph{"Times are shown and not judged: others share this processor."});
  }
  add(ruler_table(selftest));
  report.records = rates_table(answer);
  add(report.records);
  const std::string impossible = impossible_sentence(selftest);
  if (!impossible.empty()) add(Paragraph{impossible, Tone::bad});
  add_sources(answer, report.page);
  report.json = text_of(json_of(answer, question));
  return report;
}

}  // namespace memest
