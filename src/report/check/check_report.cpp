#include "memest/report/check_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "memest/diag/expect.hpp"
#include "memest/report/diagnostics.hpp"
#include "memest/report/numbers.hpp"
#include "report/check/check_chart.hpp"
#include "report/check/check_json.hpp"
#include "report/check/check_text.hpp"
#include "report/check/moved_text.hpp"

namespace memest {
namespace {

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

StatusLook look_of(const CheckedFile& file) {
  if (file.status() != FileStatus::within) return {"✗", Tone::bad};
  return is_close(file) ? StatusLook{"±", Tone::uncertain} : StatusLook{"✓", Tone::plain};
}

/// A row a file: what most ask for, and the verdict.
Table overview_of(const CheckedSpecs& specs) {
  Table table{{{"spec"},
               {"memory of a GPU", Align::right},
               {"step", Align::right},
               {"USD / B tokens", Align::right},
               {"answer"}},
              {}};
  for (const CheckedFile& file : specs.files) {
    const StatusLook look = look_of(file);
    const FileNumbers numbers = numbers_of(file);
    table.rows.push_back({{file.file, numbers.memory, numbers.step, numbers.cost, remark_of(file)},
                          std::string(look.marker),
                          look.tone});
  }
  return table;
}

void append_moves(const CheckedFile& file, Table& table) {
  const std::string marker = file.accepted ? "" : "✗";
  const Tone tone = file.accepted ? Tone::plain : Tone::bad;
  bool told = false;  // the terms, once
  for (const MovedFigure& figure : file.moves.figures) {
    const std::string terms = told ? "" : moved_terms(file.moves, &figure);
    told = told || !terms.empty();
    table.rows.push_back({{sentence_of(figure) + terms}, marker, tone});
  }
  if (file.moves.figures.empty()) {
    table.rows.push_back(
        {{"terms of the ledger" + moved_terms(file.moves, nullptr)}, marker, tone});
  }
  for (const ChangedKey& key : file.moves.keys) {
    const std::string place =
        key.span.line > 0 ? fmt::format("{}:{}: ", file.file, key.span.line) : "";
    table.rows.push_back({{place + sentence_of(key)}, "", Tone::plain});
  }
  for (const std::string& name : file.moves.rests_on) {
    table.rows.push_back({{"the lock rests on another " + name}, "", Tone::plain});
  }
}

/// All lines of a file, or those of trouble.
enum class CheckedDetail : std::uint8_t { all, trouble };

/// The lines of a file beyond its row; no rows where there is nothing to say.
Table details_of(const CheckedFile& file, CheckedDetail detail) {
  Table table{{{""}}, {}};
  for (const CheckedLine& checked : file.lines) {
    const bool within = checked.line.status == BudgetStatus::within;
    if (within && detail == CheckedDetail::trouble) continue;
    const StatusLook look = look_of(checked.line.status);
    table.rows.push_back({{sentence_of(checked)}, std::string(look.marker), look.tone});
  }
  if (file.lock == LockState::moved) append_moves(file, table);
  return table;
}

Page page_of(const CheckedSpecs& specs) {
  Page page;
  page.parts.emplace_back(Paragraph{summary_of(specs), Tone::strong});
  page.parts.emplace_back(budgets_chart(specs.files));
  if (!specs.files.empty()) page.parts.emplace_back(overview_of(specs));
  // Who asks about one file asks for all of it.
  const CheckedDetail detail =
      specs.files.size() == 1 ? CheckedDetail::all : CheckedDetail::trouble;
  for (const CheckedFile& file : specs.files) {
    Table details = details_of(file, detail);
    if (details.rows.empty()) continue;
    page.parts.emplace_back(Heading{fmt::format("{}: {}", file.file, remark_of(file))});
    page.parts.emplace_back(std::move(details));
  }
  const auto say = [&page](const std::string& text, Tone tone) {
    if (!text.empty()) page.parts.emplace_back(Paragraph{text, tone});
  };
  for (const std::string& path : specs.gone) {
    say(fmt::format("{} has {}, which is no spec any more.", specs.lock, path), Tone::plain);
  }
  say(other_basis_text(specs), Tone::plain);
  say(passed_over_text(specs), Tone::faint);
  say(advice_of(specs), Tone::plain);
  return page;
}

std::string exact_text_of(const std::optional<LockedValue>& value) {
  if (!value) return "";
  const auto* flops = std::get_if<Flops>(&*value);
  return flops == nullptr ? exact_text(as_double(*value)) : to_string(flops->value());
}

void append_records(const CheckedFile& file, Table& table) {
  for (const CheckedLine& checked : file.lines) {
    const BudgetLine& line = checked.line;
    const bool known = line.status != BudgetStatus::unavailable;
    table.rows.push_back({{file.file, std::string(name_of(line.item)),
                           std::string(name_of(line.status)), exact_text(line.limit),
                           known ? exact_text(line.value) : "", known ? exact_text(line.low) : "",
                           known ? exact_text(line.high) : "", std::string(unit_of(line.item))},
                          "",
                          {}});
  }
  for (const MovedFigure& figure : file.moves.figures) {
    table.rows.push_back({{file.file, figure.name, file.accepted ? "accepted" : "moved",
                           exact_text_of(figure.locked), exact_text_of(figure.now), "", "",
                           std::string(unit_of(figure.now ? *figure.now : *figure.locked))},
                          "",
                          {}});
  }
  if (file.lock == LockState::added) table.rows.push_back({{file.file, "", "not-locked"}, "", {}});
}

/// A budget or a moved figure a row; behind them the totals, which are of no file.
Table records_of(const CheckedSpecs& specs) {
  Table table{{{"file"}, {"budget"}, {"status"}, {"limit"}, {"value"}, {"low"}, {"high"}, {"unit"}},
              {}};
  for (const CheckedFile& file : specs.files) append_records(file, table);
  for (const std::string& path : specs.gone) table.rows.push_back({{path, "", "gone"}, "", {}});
  for (const NamedCount& total : named_totals(totals_of(specs))) {
    table.rows.push_back(
        {{"", std::string(total.name), "total", "", std::to_string(total.count)}, "", {}});
  }
  return table;
}

/// How many files are of each kind, those that there are.
std::vector<Headline> headlines_of(const CheckedSpecs& specs) {
  struct Look {
    std::size_t count;
    const char* words;
    Tone tone;
  };
  const CheckTotals totals = totals_of(specs);
  std::vector<Headline> lines;
  for (const Look& look :
       {Look{totals.within, "within", Tone::good}, Look{totals.over, "over", Tone::bad},
        Look{totals.moved, "moved from the lock", Tone::bad},
        Look{totals.not_known, "not known", Tone::uncertain},
        Look{totals.invalid, "no spec", Tone::bad}}) {
    if (look.count == 0) continue;
    lines.push_back(
        {look.words, fmt::format("{} of {} files", look.count, totals.specs), look.tone});
  }
  return lines;
}

}  // namespace

Report report_check(const CheckedSpecs& specs, const Question& question) {
  const std::size_t files = specs.files.size();
  return {page_of(specs), records_of(specs),
          text_for(question, [&] { return json_of(specs, question); }), headlines_of(specs),
          fmt::format("Budgets of {} {}", files, files == 1 ? "file" : "files")};
}

}  // namespace memest
