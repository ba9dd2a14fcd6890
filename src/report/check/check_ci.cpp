// `memest check` for machines that watch a repository.

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "memest/report/check_report.hpp"
#include "memest/report/display.hpp"
#include "report/check/check_text.hpp"
#include "report/pages/replaced.hpp"

namespace memest {
namespace {

// As the runner unescapes them: actions/toolkit, packages/core/src/command.ts.
constexpr auto kMessageSigns =
    std::to_array<Replacement>({{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
constexpr auto kPropertySigns = std::to_array<Replacement>(
    {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}});

struct Annotation {
  std::string_view level;
  std::string_view file;
  std::int32_t line = 0;  ///< 0: the whole file
  std::string_view title;
  std::string message;
};

void append(std::string& out, const Annotation& annotation) {
  const auto property = [](std::string_view text) {
    return replaced(printable(text, {}), kPropertySigns);
  };
  out += fmt::format("::{} file={}", annotation.level, property(annotation.file));
  if (annotation.line > 0) out += fmt::format(",line={}", annotation.line);
  out += fmt::format(",title={}::{}\n", property(annotation.title),
                     replaced(printable(annotation.message, {}), kMessageSigns));
}

void append_case(std::string& out, const CheckedFile& file, std::string_view name,
                 const std::string& inside) {
  out += fmt::format(R"(    <testcase classname="{}" name="{}")", xml(file.file), xml(name));
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

void append_cases(std::string& out, const CheckedFile& file, Counts& counts) {
  for (const CheckedLine& checked : file.lines) {
    ++counts.tests;
    counts.failures += checked.line.status == BudgetStatus::over ? 1 : 0;
    counts.errors += checked.line.status == BudgetStatus::unavailable ? 1 : 0;
    append_case(out, file, name_of(checked.line.item), inside_of(checked));
  }
  if (!file.lines.empty()) return;
  // A file that is held to nothing is a case of its own: it was read.
  ++counts.tests;
  if (file.errors.empty()) {
    append_case(out, file, "spec", "");
    return;
  }
  ++counts.errors;
  append_case(out, file, "spec",
              fmt::format("<error message=\"{}\"/>", xml(file.errors.front().message)));
}

}  // namespace

std::string annotations_of(const std::vector<CheckedFile>& files) {
  std::string out;
  for (const CheckedFile& file : files) {
    for (const Diagnostic& error : shown_of(file.errors)) {
      const std::string_view place = error.span.source ? error.span.source->name : file.file;
      append(out, {"error", place, error.span.line, error.unavailable ? "not known" : "bad spec",
                   error.message});
    }
    for (const CheckedLine& checked : file.lines) {
      if (checked.line.status == BudgetStatus::over) {
        append(out, {"error", file.file, 0, "over budget", sentence_of(checked)});
      } else if (checked.line.status == BudgetStatus::too_close) {
        append(out, {"warning", file.file, 0, "too close to call", sentence_of(checked)});
      }
    }
  }
  return out;
}

std::string junit_of(const std::vector<CheckedFile>& files) {
  std::string cases;
  Counts counts;
  for (const CheckedFile& file : files) append_cases(cases, file, counts);
  const std::string attributes =
      fmt::format(R"(name="memest check" tests="{}" failures="{}" errors="{}")", counts.tests,
                  counts.failures, counts.errors);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n  <testsuite {}>\n{}"
      "  </testsuite>\n</testsuites>\n",
      attributes, attributes, cases);
}

}  // namespace memest
