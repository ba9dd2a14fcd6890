// The work of a recorded step for other sizes: the lines that tell it, with formulas in the place
// of numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/symbolic/size_formula.hpp"

namespace memest {

/// A line whose numbers are formulas: texts[0] formula 0 texts[1] formula 1 ... texts.back().
struct VariedLine {
  std::vector<std::string> texts;
  std::vector<std::uint32_t> formulas;  ///< indices into VariedWork::formulas

  bool operator==(const VariedLine&) const = default;
};

/// As docs/commands/record.md has the lines. Grids are zeros, and a kernel that an operator
/// launches several times in a row stands there once: PyTorch cuts what has more elements than 32
/// bits count.
struct VariedWork {
  std::string of;                    ///< "step2"
  std::vector<std::string> kernels;  ///< by number, their names at the first point
  std::vector<SizeFormula> formulas;
  std::vector<VariedLine> lines;
};

/// The line with the formulas' values; nothing where one gives no whole number from 0 on.
std::optional<std::string> line_at(const VariedLine& line, const VariedWork& work,
                                   const SizePoint& point);

}  // namespace memest
