// Findings: what a machine is told of a run, each with its rule, its place and its sentence.
// GitHub's annotations, SARIF and GitLab's code quality are three notations of these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memest/report/check_report.hpp"

namespace memest {

enum class FindingLevel : std::uint8_t { error, warning };
/// "error", "warning": GitHub's words and SARIF's.
std::string_view name_of(FindingLevel level);

struct FindingRule {
  std::string_view id;  ///< "over-budget"
  FindingLevel level;
  std::string_view title;    ///< "over budget"
  std::string_view meaning;  ///< one sentence
};

enum class FindingKind : std::uint8_t {
  bad_spec,
  not_known,
  over_budget,
  too_close,
  moved,
  not_locked,
  gone
};

/// Every rule, in the order of FindingKind.
std::span<const FindingRule> finding_rules();
const FindingRule& rule_of(FindingKind kind);

struct CheckFinding {
  FindingKind kind = FindingKind::bad_spec;
  std::string file;
  SourceSpan span;  ///< line 0: the whole file
  std::string message;
  std::string subject;  ///< which budget; tells findings of one kind and file apart
};

std::vector<CheckFinding> findings_of(const CheckedSpecs& specs);

/// One for one trouble, whatever its numbers: "moved:configs/a.yaml".
std::string fingerprint_of(const CheckFinding& finding);

}  // namespace memest
