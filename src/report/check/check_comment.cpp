// `memest check` as a comment on a pull request: who reads it sees the verdict, then the table, and
// opens what moved.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "memest/report/check_report.hpp"
#include "memest/report/display.hpp"
#include "report/check/check_text.hpp"
#include "report/check/moved_text.hpp"
#include "report/pages/replaced.hpp"

namespace memest {
namespace {

/// GitHub takes 65,536 characters a comment, GitLab more: beyond so many bytes rows are left out,
/// and then folded parts.
constexpr std::size_t kMostOfTable = 30'000;
constexpr std::size_t kMostOfComment = 60'000;
constexpr std::size_t kMostTerms = 12;

constexpr auto kSigns = std::to_array<Replacement>({{'&', "&amp;"},
                                                    {'<', "&lt;"},
                                                    {'>', "&gt;"},
                                                    {'|', "\\|"},
                                                    {'`', "\\`"},
                                                    {'\\', "\\\\"},
                                                    {']', "\\]"},
                                                    {'*', "\\*"},
                                                    {'_', "\\_"},
                                                    {'\n', " "}});

/// Text that means itself in markdown and in the HTML within it.
std::string plain(std::string_view text) { return replaced(printable(text, {}), kSigns); }

std::string code(std::string_view text) { return fmt::format("<code>{}</code>", plain(text)); }

std::string_view sign_of(const CheckedFile& file) {
  if (file.status() != FileStatus::within) return "❌";
  return is_close(file) ? "⚠️" : "✅";
}

bool is_quiet(const CheckedFile& file) {
  return file.status() == FileStatus::within && !is_close(file) && file.lock != LockState::moved &&
         file.lock != LockState::added;
}

/// " (+11.6 GiB)" behind a number whose figure moved.
std::string moved_by(const CheckedFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.moves.figures, name, &MovedFigure::name);
  if (file.lock != LockState::moved || found == file.moves.figures.end()) return {};
  const std::string share = share_text(*found);
  return fmt::format(" <b>({})</b>",
                     plain(name == "device" || share.empty() ? difference_text(*found) : share));
}

void append_row(std::string& out, const CheckedFile& file) {
  const FileNumbers numbers = numbers_of(file);
  const std::string step = moved_by(file, "step") + moved_by(file, "call");
  out += fmt::format("| {} | {} | {}{} | {}{} | {}{} | {} |\n", sign_of(file), code(file.file),
                     numbers.memory, moved_by(file, "device"), numbers.step, step, numbers.cost,
                     moved_by(file, "cost per billion tokens"), plain(remark_of(file)));
}

void append_table(std::string& out, const CheckedSpecs& specs) {
  out += "| | spec | memory of a GPU | step | USD / B tokens | |\n|---|---|---:|---:|---:|---|\n";
  std::vector<const CheckedFile*> rows;
  for (const CheckedFile& file : specs.files) rows.push_back(&file);
  // Files that need a look stand first, each part in the order of the paths.
  std::stable_partition(rows.begin(), rows.end(),
                        [](const CheckedFile* file) { return !is_quiet(*file); });
  std::size_t shown = 0;
  for (; shown < rows.size() && out.size() < kMostOfTable; ++shown) append_row(out, *rows[shown]);
  if (shown < rows.size()) {
    out += fmt::format("| | and {} more | | | | |\n", rows.size() - shown);
  }
}

void append_figures(std::string& out, std::string_view title,
                    const std::vector<MovedFigure>& figures, std::size_t most) {
  if (figures.empty()) return;
  out += fmt::format("\n| {} | locked | now | difference | |\n|---|---:|---:|---:|---:|\n", title);
  for (std::size_t i = 0; i < std::min(figures.size(), most); ++i) {
    const MovedFigure& figure = figures[i];
    out +=
        fmt::format("| {} | {} | {} | {} | {} |\n", plain(figure.name), value_text(figure.locked),
                    value_text(figure.now), difference_text(figure), share_text(figure));
  }
  if (figures.size() > most) out += fmt::format("| {} more | | | | |\n", figures.size() - most);
}

/// "device +11.6 GiB, training.micro_batch: 1 → 2".
std::string headline_text(const CheckedFile& file) {
  const MovedFigure* headline = headline_of(file.moves);
  std::string text;
  if (headline != nullptr) {
    text = plain(headline->name + " " + difference_text(*headline));
  } else if (file.lock == LockState::moved) {
    text = "terms of the ledger moved";
  } else {
    text = plain(remark_of(file));
  }
  if (!file.moves.keys.empty() && file.lock == LockState::moved) {
    text += ", " + code(sentence_of(file.moves.keys.front()));
  }
  return text;
}

void append_details(std::string& out, const CheckedFile& file) {
  out += fmt::format("\n<details><summary>{} {}: {}</summary>\n\n", sign_of(file), code(file.file),
                     headline_text(file));
  for (const Diagnostic& error : shown_of(file.errors)) {
    const std::string line =
        error.span.line > 0 ? fmt::format("line {}: ", error.span.line) : std::string();
    out += fmt::format("- {}{}\n", line, plain(error.message));
  }
  for (const CheckedLine& checked : file.lines) {
    if (checked.line.status == BudgetStatus::within) continue;
    if (checked.line.status == BudgetStatus::unavailable) continue;  // an error says it
    out += fmt::format("- {}\n", plain(sentence_of(checked)));
  }
  if (file.lock == LockState::moved) {
    for (const ChangedKey& key : file.moves.keys) {
      out += fmt::format("- line {}: {}\n", key.span.line, code(sentence_of(key)));
    }
    for (const std::string& name : file.moves.rests_on) {
      out += fmt::format("- the lock rests on another {}\n", plain(name));
    }
    append_figures(out, "figure", file.moves.figures, file.moves.figures.size());
    append_figures(out, "term of the memory", file.moves.terms, kMostTerms);
  }
  out += "\n</details>\n";
}

void append_all_details(std::string& out, const CheckedSpecs& specs) {
  std::size_t left_out = 0;
  for (const CheckedFile& file : specs.files) {
    const bool says_nothing = is_quiet(file) || (file.lock == LockState::added &&
                                                 file.status() <= FileStatus::not_locked);
    if (says_nothing) continue;
    std::string details;
    append_details(details, file);
    if (out.size() + details.size() > kMostOfComment) {
      ++left_out;
    } else {
      out += details;
    }
  }
  if (left_out > 0) out += fmt::format("\n{} more are in the log of the job.\n", left_out);
}

}  // namespace

std::string comment_of(const CheckedSpecs& specs) {
  const bool holds = specs.status() == FileStatus::within;
  std::string out = fmt::format("{}\n### {} memest check\n\n{}\n\n", kCommentMarker,
                                holds ? "✅" : "❌", plain(summary_of(specs)));
  append_table(out, specs);
  append_all_details(out, specs);
  for (const std::string& path : specs.gone) {
    out += fmt::format("\n{} has {}, which is no spec any more.\n", plain(specs.lock), code(path));
  }
  for (const std::string& text : {other_basis_text(specs), passed_over_text(specs)}) {
    if (!text.empty()) out += "\n" + plain(text) + "\n";
  }
  if (!advice_of(specs).empty()) {
    out += "\nWhere that is meant: <code>memest check --update</code>.\n";
  }
  return out;
}

}  // namespace memest
