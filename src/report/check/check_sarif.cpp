// The findings of `memest check` as SARIF 2.1.0 (OASIS) and as GitLab's code quality report.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "memest/report/check_report.hpp"
#include "report/check/check_text.hpp"
#include "report/check/findings.hpp"
#include "report/pages/json.hpp"

namespace memest {
namespace {

/// A path as a relative reference (RFC 3986, section 3.3).
std::string uri_of(std::string_view path) {
  constexpr std::string_view kUnreserved =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string uri;
  for (const char sign : path) {
    if (kUnreserved.find(sign) != std::string_view::npos) {
      uri += sign;
      continue;
    }
    const auto byte = static_cast<unsigned char>(sign);
    uri += {'%', kDigits[byte / 16U], kDigits[byte % 16U]};
  }
  return uri;
}

Json sarif_rules() {
  Json rules = Json::array();
  for (const FindingRule& rule : finding_rules()) {
    rules.push_back({{"id", rule.id},
                     {"shortDescription", {{"text", rule.title}}},
                     {"fullDescription", {{"text", rule.meaning}}},
                     {"defaultConfiguration", {{"level", name_of(rule.level)}}}});
  }
  return rules;
}

/// Columns count from 1, as ours; GitHub asks for a line, and the first stands for a whole file.
Json region_of(const SourceSpan& span) {
  Json region{{"startLine", std::max(span.line, 1)}};
  if (span.line > 0 && span.column > 0) {
    region["startColumn"] = span.column;
    region["endColumn"] = span.column + std::max(span.length, 1);
  }
  return region;
}

Json sarif_result(const CheckFinding& finding) {
  const FindingRule& rule = rule_of(finding.kind);
  const Json place{{"artifactLocation", {{"uri", uri_of(finding.file)}}},
                   {"region", region_of(finding.span)}};
  Json result{{"ruleId", rule.id},
              {"ruleIndex", static_cast<std::size_t>(finding.kind)},
              {"level", name_of(rule.level)},
              {"message", {{"text", finding.message}}}};
  result["locations"] = Json::array({Json{{"physicalLocation", place}}});
  result["partialFingerprints"] = {{"memest/v1", fingerprint_of(finding)}};
  return result;
}

}  // namespace

std::string sarif_of(const CheckedSpecs& specs, std::string_view version) {
  Json run;
  run["tool"]["driver"] = {
      {"name", "memest"}, {"semanticVersion", version}, {"rules", sarif_rules()}};
  run["columnKind"] = "utf16CodeUnits";
  run["results"] = Json::array();
  for (const CheckFinding& finding : findings_of(specs)) {
    run["results"].push_back(sarif_result(finding));
  }
  Json totals = Json::object();
  for (const NamedCount& total : named_totals(totals_of(specs))) {
    totals[std::string(total.name)] = total.count;
  }
  run["properties"] = {{"summary", summary_of(specs)}, {"totals", totals}};
  Json sarif{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}};
  sarif["runs"] = Json::array({run});
  return text_of(sarif);
}

std::string code_quality_of(const CheckedSpecs& specs) {
  Json issues = Json::array();
  for (const CheckFinding& finding : findings_of(specs)) {
    const FindingRule& rule = rule_of(finding.kind);
    const Json lines{{"begin", std::max(finding.span.line, 1)}};
    issues.push_back({{"description", finding.message},
                      {"check_name", "memest/" + std::string(rule.id)},
                      {"fingerprint", fingerprint_of(finding)},
                      {"severity", rule.level == FindingLevel::error ? "major" : "minor"},
                      {"location", {{"path", finding.file}, {"lines", lines}}}});
  }
  return text_of(issues);
}

}  // namespace memest
