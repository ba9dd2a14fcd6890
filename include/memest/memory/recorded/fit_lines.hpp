// Lines that a program writes at a few sizes become lines with formulas, or the first is named in
// which they part.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "memest/spec/recorded/varied_work.hpp"

namespace memest {

/// The lines at a point.
struct LinesAt {
  SizePoint point;
  std::vector<std::string> lines;
};

/// A line of the first point, and what stands in its place at another, or where the formula gives
/// another number than was held out; empty where there is none.
struct PartedLines {
  std::string first;
  SizePoint point;
  std::string other;
};

/// Words of a line are parted by a blank. Numbers are whole ones; of an operator's line a word that
/// is another kind of number, and differs, becomes "-". The last of `recorded` is held out: it must
/// have the lines that the formulas give. Throws OverflowError.
std::variant<VariedWork, PartedLines> fit_lines(const std::vector<LinesAt>& recorded);

}  // namespace memest
