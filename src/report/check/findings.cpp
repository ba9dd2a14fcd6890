#include "report/check/findings.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "memest/diag/expect.hpp"
#include "report/check/check_text.hpp"
#include "report/check/moved_text.hpp"

namespace memest {
namespace {

constexpr std::array<FindingRule, 7> kRules = {{
    {"bad-spec", FindingLevel::error, "bad spec", "The file is no spec that can be answered."},
    {"not-known", FindingLevel::error, "not known",
     "Nobody can tell yet what the spec asks for, so that its budget cannot be held."},
    {"over-budget", FindingLevel::error, "over budget",
     "The estimate is over a budget of the spec, or over the capacity of the GPU that it names."},
    {"too-close-to-call", FindingLevel::warning, "too close to call",
     "The estimate is within the budget, its interval is not."},
    {"moved", FindingLevel::error, "moved from the lock",
     "A figure of the spec is not what the lock has; `memest check --update` accepts it."},
    {"not-locked", FindingLevel::error, "not in the lock",
     "The lock has no figures of this spec; `memest check --update` adds them."},
    {"gone", FindingLevel::error, "gone",
     "The lock has a spec that is no more; `memest check --update` drops it."},
}};

/// Keys that a budget line is about, the nearest first.
std::vector<std::string_view> keys_of(BudgetItem item) {
  switch (item) {
    case BudgetItem::capacity:
      return {"hardware.memory", "hardware.gpu", "model"};
    case BudgetItem::host_memory:
      return {"hardware.host_memory", "hardware.gpu", "model"};
    case BudgetItem::memory:
      return {"budget.memory"};
    case BudgetItem::step_time:
      return {"budget.step_time"};
    case BudgetItem::cost_per_billion_tokens:
      return {"budget.cost_per_billion_tokens"};
    case BudgetItem::flops:
      return {"budget.flops"};
  }
  unreachable("a budget item beyond the enum");
}

/// The place of the first key that the file writes, or of the first key below it.
SourceSpan place_of(const CheckedFile& file, const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys) {
    for (const SpecLeaf& written : file.now.keys) {
      const std::string_view name = written.key;
      if (!name.starts_with(key)) continue;
      if (name.size() == key.size() || name[key.size()] == '.' || name[key.size()] == '[') {
        return written.span;
      }
    }
  }
  return {};
}

/// The key that changed; where the spec is as it was, its model.
SourceSpan place_of_move(const CheckedFile& file) {
  if (!file.moves.keys.empty()) return file.moves.keys.front().span;
  return place_of(file, {"model"});
}

void append_errors(const CheckedFile& file, std::vector<CheckFinding>& findings) {
  for (const Diagnostic& error : shown_of(file.errors)) {
    const bool elsewhere = error.span.source != nullptr;
    const FindingKind kind = error.unavailable ? FindingKind::not_known : FindingKind::bad_spec;
    findings.push_back({kind, elsewhere ? error.span.source->name : file.file, error.span,
                        error.message, error.message});
  }
}

void append_budgets(const CheckedFile& file, std::vector<CheckFinding>& findings) {
  for (const CheckedLine& checked : file.lines) {
    const BudgetStatus status = checked.line.status;
    if (status != BudgetStatus::over && status != BudgetStatus::too_close) continue;
    const bool over = status == BudgetStatus::over;
    // Whoever changed a key broke the budget there.
    const bool by_change = over && file.lock == LockState::moved && !file.moves.keys.empty();
    findings.push_back(
        {over ? FindingKind::over_budget : FindingKind::too_close, file.file,
         by_change ? place_of_move(file) : place_of(file, keys_of(checked.line.item)),
         sentence_of(checked), std::string(name_of(checked.line.item))});
  }
}

void append_lock(const CheckedFile& file, std::vector<CheckFinding>& findings) {
  if (file.accepted) return;
  if (file.lock == LockState::moved) {
    findings.push_back(
        {FindingKind::moved, file.file, place_of_move(file), sentence_of(file.moves), ""});
  } else if (file.lock == LockState::added) {
    findings.push_back({FindingKind::not_locked, file.file, place_of(file, {"model"}),
                        "the lock has no figures of this spec", ""});
  }
}

}  // namespace

std::string_view name_of(FindingLevel level) {
  return level == FindingLevel::error ? "error" : "warning";
}

std::span<const FindingRule> finding_rules() { return kRules; }

const FindingRule& rule_of(FindingKind kind) { return kRules[static_cast<std::size_t>(kind)]; }

std::vector<CheckFinding> findings_of(const CheckedSpecs& specs) {
  std::vector<CheckFinding> findings;
  for (const CheckedFile& file : specs.files) {
    append_errors(file, findings);
    append_budgets(file, findings);
    append_lock(file, findings);
  }
  if (specs.updated) return findings;
  for (const std::string& path : specs.gone) {
    findings.push_back({FindingKind::gone, specs.lock, {}, "there is no spec " + path, path});
  }
  return findings;
}

std::string fingerprint_of(const CheckFinding& finding) {
  std::string text = std::string(rule_of(finding.kind).id) + ":" + finding.file;
  return finding.subject.empty() ? text : text + ":" + finding.subject;
}

}  // namespace memest
