// The answer of `memest check`: each file held to its budget and to the lock, for people, for pull
// requests, and for the machines that watch a repository.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/memory/recorded_use.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/lock.hpp"
#include "memest/plan/recorded_needs.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/lock.hpp"

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

/// Worse ones behind. `not_known`: nothing is wrong with the file, but what it asks for is not
/// available yet.
enum class FileStatus : std::uint8_t { within, not_locked, moved, over, not_known, invalid };

/// A file in the lock: whether and how it is there.
enum class LockState : std::uint8_t {
  none,   ///< there is no lock, or the file has no place in one
  held,   ///< its figures, all of them
  moved,  ///< others
  added   ///< nothing: the spec is new
};

struct CheckedFile {
  std::string file;
  bool has_budget = false;
  std::vector<CheckedLine> lines;
  Diagnostics errors;             ///< the file is no spec, or asks for what nobody can tell
  std::optional<Bytes> capacity;  ///< of the GPU that it names, or hardware.memory
  LockedSpec now;                 ///< empty where the file is no spec
  LockState lock = LockState::none;
  SpecMoves moves;        ///< from what the lock had
  bool accepted = false;  ///< the lock is written anew with what the file has now

  [[nodiscard]] FileStatus status() const;
};

/// All files of one run, and what the lock has beside them.
struct CheckedSpecs {
  std::vector<CheckedFile> files;        ///< sorted by path
  std::vector<std::string> passed_over;  ///< found and no specs
  std::string lock;                      ///< path of the lock file; empty: none
  std::vector<std::string> gone;         ///< that the lock has and nobody else
  bool updated = false;                  ///< the lock is written anew

  /// The worst of the files'; `moved` at least where one is gone.
  [[nodiscard]] FileStatus status() const;
};

/// Holds a job to its budget.
CheckedFile check_file(const std::string& file, const Job& job, const JobEstimate& estimate);
/// Holds a recorded run to a budget; `peak` says whose the memory is.
CheckedFile check_recording(const std::string& file, const Budget& budget,
                            const RecordedNeeds& needs, const RecordedMoment& peak);

/// One line: how many specs there are and how many of each status.
std::string summary_of(const CheckedSpecs& specs);

Report report_check(const CheckedSpecs& specs, const Question& question);

/// A comment on a pull request, markdown: the verdict, a table over all files, what moved folded.
/// Its first line is kCommentMarker, by which whoever posts it finds the last one.
std::string comment_of(const CheckedSpecs& specs);
inline constexpr std::string_view kCommentMarker = "<!-- memest check -->";

/// GitHub workflow commands, one a line: `::error file=...,line=...,title=...::...`.
std::string annotations_of(const CheckedSpecs& specs);

/// JUnit XML: a test case a budget and one a locked spec, a failure where it does not hold.
std::string junit_of(const CheckedSpecs& specs);

/// SARIF 2.1.0; `version` is memest's.
std::string sarif_of(const CheckedSpecs& specs, std::string_view version);

/// GitLab's code quality report.
std::string code_quality_of(const CheckedSpecs& specs);

}  // namespace memest
