// `memest check` for machines that watch a repository.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "memest/report/check_report.hpp"
#include "memest/report/display.hpp"
#include "report/check/check_text.hpp"
#include "report/check/findings.hpp"
#include "report/check/moved_text.hpp"
#include "report/pages/replaced.hpp"

namespace memest {
namespace {

// As the runner unescapes them: actions/toolkit, packages/core/src/command.ts.
constexpr auto kMessageSigns =
    std::to_array<Replacement>({{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
constexpr auto kPropertySigns = std::to_array<Replacement>(
    {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}});

std::string property(std::string_view text) {
  return replaced(printable(text, {}), kPropertySigns);
}

void append_case(std::string& out, std::string_view file, std::string_view name,
                 const std::string& inside) {
  out += fmt::format(R"(    <testcase classname="{}" name="{}")", xml(file), xml(name));
  out += inside.empty() ? "/>\n" : fmt::format(">\n      {}\n    </testcase>\n", inside);
}

std::string inside_of(const CheckedLine& checked) {
  const std::string sentence = xml(sentence_of(checked));
  switch (checked.line.status) {
    case BudgetStatus::within:
      return "";
    case BudgetStatus::too_close:
      // JUnit knows no warning: a case with output alone has passed.
      return fmt::format("<system-out>{}</system-out>", sentence);
    case BudgetStatus::over:
      return fmt::format("<failure message=\"{}\"/>", sentence);
    case BudgetStatus::unavailable:
      // JUnit's failure is a claim that does not hold, its error a case that could not be judged.
      return fmt::format("<error message=\"{}\"/>", sentence);
  }
  return "";
}

struct Counts {
  std::size_t tests = 0;
  std::size_t failures = 0;
  std::size_t errors = 0;
};

/// A case that holds the file to the lock; none where there is no lock for it.
void append_lock_case(std::string& out, const CheckedFile& file, Counts& counts) {
  if (file.lock == LockState::none) return;
  ++counts.tests;
  std::string inside;
  if (file.lock != LockState::held) {
    const std::string sentence = file.lock == LockState::added
                                     ? "the lock has no figures of this spec"
                                     : xml(sentence_of(file.moves));
    counts.failures += file.accepted ? 0 : 1;
    inside = file.accepted ? fmt::format("<system-out>{}</system-out>", sentence)
                           : fmt::format("<failure message=\"{}\"/>", sentence);
  }
  append_case(out, file.file, "lock", inside);
}

void append_cases(std::string& out, const CheckedFile& file, Counts& counts) {
  for (const CheckedLine& checked : file.lines) {
    ++counts.tests;
    counts.failures += checked.line.status == BudgetStatus::over ? 1 : 0;
    counts.errors += checked.line.status == BudgetStatus::unavailable ? 1 : 0;
    append_case(out, file.file, name_of(checked.line.item), inside_of(checked));
  }
  append_lock_case(out, file, counts);
  if (!file.lines.empty()) return;
  // A file that is held to nothing is a case of its own: it was read.
  ++counts.tests;
  if (file.errors.empty()) return append_case(out, file.file, "spec", "");
  ++counts.errors;
  append_case(out, file.file, "spec",
              fmt::format("<error message=\"{}\"/>", xml(file.errors.front().message)));
}

}  // namespace

std::string annotations_of(const CheckedSpecs& specs) {
  std::string out;
  for (const CheckFinding& finding : findings_of(specs)) {
    const FindingRule& rule = rule_of(finding.kind);
    const SourceSpan& span = finding.span;
    out += fmt::format("::{} file={}", name_of(rule.level), property(finding.file));
    if (span.line > 0) out += fmt::format(",line={},col={}", span.line, std::max(span.column, 1));
    out += fmt::format(",title={}::{}\n", property(rule.title),
                       replaced(printable(finding.message, {}), kMessageSigns));
  }
  return out + fmt::format("::notice title=memest check::{}\n",
                           replaced(printable(summary_of(specs), {}), kMessageSigns));
}

std::string junit_of(const CheckedSpecs& specs) {
  std::string cases;
  Counts counts;
  for (const CheckedFile& file : specs.files) append_cases(cases, file, counts);
  for (const std::string& path : specs.gone) {
    ++counts.tests;
    counts.failures += specs.updated ? 0 : 1;
    append_case(cases, path, "lock",
                specs.updated ? "" : "<failure message=\"the lock has it, and it is no more\"/>");
  }
  const std::string attributes =
      fmt::format(R"(name="memest check" tests="{}" failures="{}" errors="{}")", counts.tests,
                  counts.failures, counts.errors);
  std::string properties;
  for (const NamedCount& total : named_totals(totals_of(specs))) {
    properties +=
        fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", total.name, total.count);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n  <testsuite {}>\n"
      "    <properties>\n{}    </properties>\n{}    <system-out>{}</system-out>\n"
      "  </testsuite>\n</testsuites>\n",
      attributes, attributes, properties, cases, xml(summary_of(specs)));
}

}  // namespace memest
