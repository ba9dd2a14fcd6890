// The answer of `memest record --vary`: the sizes of a program as formulas, or why there are none.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/memory/recorded/family_at.hpp"
#include "memest/memory/recorded/fit_family.hpp"
#include "memest/report/report.hpp"

namespace memest {

/// One process of a program that was recorded at several sizes.
struct FamilyRun {
  FittedFamily fitted;
  std::vector<RecordedPeaks> peaks;  ///< by point: those that are fitted, then the one held out
  std::vector<PlaceFormula> places;  ///< at the peak of `shown`
  SizePoint shown;                   ///< the highest values
  std::string file;                  ///< its recording; empty where none was asked for
};

struct VariedProgram {
  std::string command;  ///< with its {NAMES}
  std::string gpu;
  Bytes capacity;
  Bytes context;
  std::vector<FamilyRun> processes;
  std::vector<std::string> unanswered;  ///< functions that the null device does not know
  std::vector<std::string> taken_as_0;  ///< sizes that it does not know
};

Report report_families(const VariedProgram& program, const Question& question);

/// "batch=2 seq=512".
std::string point_text(const std::vector<std::string>& names, const SizePoint& point);

/// The refusal in a sentence, of exit code 4. `recordings` says where the recordings of its points
/// are; empty where they were not kept.
Diagnostic refusal_of(const FamilyRefusal& refusal, const std::vector<VariedSize>& varied,
                      const std::string& recordings);

}  // namespace memest
