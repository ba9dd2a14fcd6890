// How many specs are within, over, moved, ...: the numbers and the line that says them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "report/check/check_text.hpp"
#include "report/check/moved_text.hpp"

namespace memest {
namespace {

struct CountWords {
  std::size_t count;
  std::string_view words;
};

/// "3 over budget, 1 not known": those that are none left out.
template <std::size_t Size>
std::string counted(const std::array<CountWords, Size>& rows) {
  std::string text;
  for (const CountWords& row : rows) {
    if (row.count == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.count, row.words);
  }
  return text;
}

std::string lock_text(const CheckedSpecs& specs, const CheckTotals& totals) {
  const bool updated = specs.updated;
  std::string text =
      counted(std::array<CountWords, 3>{{{totals.moved, "moved"},
                                         {totals.added, updated ? "new" : "not in it"},
                                         {totals.gone, "gone"}}});
  if (totals.higher > 0 && totals.lower > 0) {
    text += fmt::format(" ({} higher, {} lower)", totals.higher, totals.lower);
  } else if (totals.moved > 0) {
    text += totals.higher > 0 ? " (higher)" : totals.lower > 0 ? " (lower)" : "";
  }
  if (text.empty()) text = "nothing moved";
  return fmt::format("; {}{}: {}", specs.lock, updated ? " is written" : "", text);
}

}  // namespace

bool is_close(const CheckedFile& file) {
  return std::any_of(file.lines.begin(), file.lines.end(), [](const CheckedLine& checked) {
    return checked.line.status == BudgetStatus::too_close;
  });
}

CheckTotals totals_of(const CheckedSpecs& specs) {
  CheckTotals totals{.specs = specs.files.size(),
                     .gone = specs.gone.size(),
                     .passed_over = specs.passed_over.size()};
  for (const CheckedFile& file : specs.files) {
    const FileStatus status = file.status();
    totals.over += status == FileStatus::over ? 1 : 0;
    totals.not_known += status == FileStatus::not_known ? 1 : 0;
    totals.invalid += status == FileStatus::invalid ? 1 : 0;
    totals.within += status < FileStatus::over ? 1 : 0;
    totals.too_close += status < FileStatus::over && is_close(file) ? 1 : 0;
    totals.added += file.lock == LockState::added ? 1 : 0;
    if (file.lock != LockState::moved) continue;
    ++totals.moved;
    const MovedFigure* headline = headline_of(file.moves);
    totals.higher += headline != nullptr && headline->difference() > 0 ? 1 : 0;
    totals.lower += headline != nullptr && headline->difference() < 0 ? 1 : 0;
  }
  return totals;
}

std::vector<NamedCount> named_totals(const CheckTotals& totals) {
  return {{"specs", totals.specs},         {"within", totals.within},
          {"too_close", totals.too_close}, {"over", totals.over},
          {"not_known", totals.not_known}, {"invalid", totals.invalid},
          {"moved", totals.moved},         {"higher", totals.higher},
          {"lower", totals.lower},         {"not_locked", totals.added},
          {"gone", totals.gone},           {"passed_over", totals.passed_over}};
}

FileNumbers numbers_of(const CheckedFile& file) {
  FileNumbers numbers;
  if (const auto device = figure_of(file, "device")) {
    const Bytes bytes = std::get<Bytes>(*device);
    numbers.memory = file.capacity
                         ? fmt::format("{} of {} GiB", gib_text(bytes), gib_text(*file.capacity))
                         : sized_text(bytes);
  }
  for (const std::string_view name : {"step", "call"}) {
    if (const auto time = figure_of(file, name)) numbers.step = value_text(time);
  }
  if (const auto cost = figure_of(file, "cost per billion tokens")) {
    numbers.cost = significant_text(as_double(*cost));
  }
  return numbers;
}

std::string other_basis_text(const CheckedSpecs& specs) {
  std::map<std::string, std::size_t> counts;
  for (const CheckedFile& file : specs.files) {
    if (file.lock != LockState::held) continue;
    for (const std::string& name : file.moves.rests_on) ++counts[name];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} of {} spec{}", text.empty() ? "" : ", ", name, count,
                        count == 1 ? "" : "s");
  }
  if (text.empty()) return text;
  return fmt::format("{} rests on others of these, and nothing moved: {}.", specs.lock, text);
}

std::string advice_of(const CheckedSpecs& specs) {
  const CheckTotals totals = totals_of(specs);
  if (specs.updated || totals.moved + totals.added + totals.gone == 0) return {};
  return fmt::format("`memest check --update` writes what there is now to {}.", specs.lock);
}

std::string summary_of(const CheckedSpecs& specs) {
  const CheckTotals totals = totals_of(specs);
  const std::string counts = counted(std::array<CountWords, 4>{{{totals.within, "within budget"},
                                                                {totals.over, "over budget"},
                                                                {totals.not_known, "not known"},
                                                                {totals.invalid, "no spec"}}});
  std::string text = fmt::format("{} spec{}", totals.specs, totals.specs == 1 ? "" : "s");
  if (!counts.empty()) text += ": " + counts;
  if (totals.too_close > 0) text += fmt::format(" ({} too close to call)", totals.too_close);
  if (!specs.lock.empty()) text += lock_text(specs, totals);
  if (totals.passed_over > 0) {
    text += fmt::format("; {} file{} passed over", totals.passed_over,
                        totals.passed_over == 1 ? "" : "s");
  }
  return text + ".";
}

std::string passed_over_text(const CheckedSpecs& specs) {
  constexpr std::size_t kShown = 8;
  const std::size_t count = specs.passed_over.size();
  if (count == 0) return {};
  std::string text = count == 1 ? "1 file is no spec" : fmt::format("{} files are no specs", count);
  for (std::size_t i = 0; i < std::min(count, kShown); ++i) {
    text += (i == 0 ? ": " : ", ") + specs.passed_over[i];
  }
  if (count > kShown) text += fmt::format(" and {} more", count - kShown);
  return text + ".";
}

std::string remark_of(const CheckedFile& file) {
  const FileStatus status = file.status();
  if (status == FileStatus::invalid) return "bad input";
  if (status == FileStatus::not_known) return "not known";
  std::string text = "within budget";
  if (status == FileStatus::over) {
    text = "over budget";
  } else if (is_close(file)) {
    text = "too close to call";
  } else if (!file.has_budget && file.lines.empty()) {
    text = "no budget, and no GPU";
  } else if (!file.has_budget) {
    text = "no budget; within its GPU";
  }
  const char* now = file.accepted ? ", now locked" : "";
  switch (file.lock) {
    case LockState::none:
      return text;
    case LockState::held:
      return text + ", as locked";
    case LockState::moved:
      return text + ", moved from the lock" + now;
    case LockState::added:
      return text + (file.accepted ? ", new" : ", not in the lock") + now;
  }
  unreachable("a lock's state beyond the enum");
}

}  // namespace memest
