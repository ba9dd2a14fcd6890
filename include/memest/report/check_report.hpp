// The answer of `memest check`: each file held to its budget, for people, for GitHub's annotations
// and for whatever reads JUnit.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// A share of a broken budget: the largest shares, largest first, each with its amount.
struct BudgetShare {
  std::string name;
  double amount = 0;  ///< in the line's unit
};

struct CheckedLine {
  BudgetLine line;
  std::vector<BudgetShare> shares;  ///< of a line that is over or too close
};

/// `not_known`: nothing is wrong with the file, but what it asks for is not available yet.
enum class FileStatus : std::uint8_t { within, over, not_known, invalid };

struct CheckedFile {
  std::string file;
  bool has_budget = false;
  std::vector<CheckedLine> lines;
  Diagnostics errors;  ///< the file is no spec, or asks for what nobody can tell

  [[nodiscard]] FileStatus status() const;
};

/// Holds a job to its budget.
CheckedFile check_file(const std::string& file, const Job& job, const JobEstimate& estimate);

Report report_check(const std::vector<CheckedFile>& files, const Question& question);

/// GitHub workflow commands, one a line: `::error file=...,title=...::...`.
std::string annotations_of(const std::vector<CheckedFile>& files);

/// JUnit XML: a test case a budget, a failure where it is over.
std::string junit_of(const std::vector<CheckedFile>& files);

}  // namespace memest
