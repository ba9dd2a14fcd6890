#include "memest/report/check_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memest/diag/expect.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/report/numbers.hpp"
#include "report/check/check_chart.hpp"
#include "report/check/check_text.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

std::string_view name_of(FileStatus status) {
  switch (status) {
    case FileStatus::within:
      return "within";
    case FileStatus::over:
      return "over";
    case FileStatus::not_known:
      return "not-known";
    case FileStatus::invalid:
      return "invalid";
  }
  unreachable("a file status beyond the enum");
}

struct StatusLook {
  std::string_view marker;
  Tone tone;
};

StatusLook look_of(BudgetStatus status) {
  switch (status) {
    case BudgetStatus::within:
      return {"✓", Tone::plain};
    case BudgetStatus::too_close:
      return {"±", Tone::uncertain};
    case BudgetStatus::over:
    case BudgetStatus::unavailable:
      return {"✗", Tone::bad};
  }
  unreachable("a budget status beyond the enum");
}

/// A remark on a file beside its lines.
std::string remark_of(const CheckedFile& file) {
  switch (file.status()) {
    case FileStatus::invalid:
      return "bad input";
    case FileStatus::over:
      return "over budget";
    case FileStatus::not_known:
      return "not known";
    case FileStatus::within:
      break;
  }
  if (file.has_budget) return "within budget";
  return file.lines.empty() ? "no budget in this file, and no GPU to fit on"
                            : "no budget in this file; held to the GPU's capacity alone";
}

Page page_of(const std::vector<CheckedFile>& files) {
  Page page;
  page.parts.emplace_back(budgets_chart(files));
  for (const CheckedFile& file : files) {
    page.parts.emplace_back(Heading{fmt::format("{}: {}", file.file, remark_of(file))});
    Table table{{{""}}, {}};
    for (const CheckedLine& checked : file.lines) {
      const StatusLook look = look_of(checked.line.status);
      table.rows.push_back({{sentence_of(checked)}, std::string(look.marker), look.tone});
    }
    if (!table.rows.empty()) page.parts.emplace_back(std::move(table));
  }
  return page;
}

Table records_of(const std::vector<CheckedFile>& files) {
  Table table{{{"file"}, {"budget"}, {"status"}, {"limit"}, {"value"}, {"low"}, {"high"}, {"unit"}},
              {}};
  for (const CheckedFile& file : files) {
    for (const CheckedLine& checked : file.lines) {
      const BudgetLine& line = checked.line;
      const bool known = line.status != BudgetStatus::unavailable;
      table.rows.push_back({{file.file, std::string(memest::name_of(line.item)),
                             std::string(memest::name_of(line.status)), exact_text(line.limit),
                             known ? exact_text(line.value) : "", known ? exact_text(line.low) : "",
                             known ? exact_text(line.high) : "", std::string(unit_of(line.item))},
                            "",
                            {}});
    }
  }
  return table;
}

Json json_of(const CheckedLine& checked) {
  const BudgetLine& line = checked.line;
  Json json{{"budget", memest::name_of(line.item)},
            {"status", memest::name_of(line.status)},
            {"unit", unit_of(line.item)},
            {"limit", line.limit}};
  if (line.status == BudgetStatus::unavailable) {
    put_null(json, "value", line.sentence);
    return json;
  }
  json["value"] = line.value;
  json["interval"] = {line.low, line.high};
  json["largest"] = Json::array();
  for (const BudgetShare& share : checked.shares) {
    json["largest"].push_back({{"name", share.name}, {"amount", share.amount}});
  }
  return json;
}

Json json_of(const std::vector<CheckedFile>& files, const Question& question) {
  Json json = new_answer();
  json["files"] = Json::array();
  for (const CheckedFile& file : files) {
    Json entry{{"file", file.file},
               {"status", name_of(file.status())},
               {"has_budget", file.has_budget},
               {"budgets", Json::array()},
               {"errors", Json::array()}};
    for (const CheckedLine& checked : file.lines) entry["budgets"].push_back(json_of(checked));
    for (const Diagnostic& error : shown_of(file.errors)) entry["errors"].push_back(error.message);
    json["files"].push_back(std::move(entry));
  }
  json["provenance"] = {{"method", "closed form"}, {"versions", {{"memest", question.version}}}};
  return json;
}

/// How many files are of each status, those that there are.
std::vector<Headline> headlines_of(const std::vector<CheckedFile>& files) {
  struct Look {
    FileStatus status;
    const char* words;
    Tone tone;
  };
  std::vector<Headline> lines;
  for (const Look& look :
       {Look{FileStatus::within, "within", Tone::good}, Look{FileStatus::over, "over", Tone::bad},
        Look{FileStatus::not_known, "not known", Tone::uncertain},
        Look{FileStatus::invalid, "no spec", Tone::bad}}) {
    const auto count = std::ranges::count(files, look.status, &CheckedFile::status);
    if (count > 0) {
      lines.push_back({look.words, fmt::format("{} of {} files", count, files.size()), look.tone});
    }
  }
  return lines;
}

}  // namespace

Report report_check(const std::vector<CheckedFile>& files, const Question& question) {
  return {page_of(files), records_of(files),
          text_for(question, [&] { return json_of(files, question); }), headlines_of(files),
          fmt::format("Budgets of {} {}", files.size(), files.size() == 1 ? "file" : "files")};
}

}  // namespace memest
