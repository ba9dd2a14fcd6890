// One sentence on what a change does.
#pragma once

#include <string>
#include <vector>

#include "memest/report/page.hpp"
#include "report/diff/changed_keys.hpp"
#include "report/diff/figures.hpp"

namespace memest {

/// "+3.20 GiB at the peak, fits no more; 12 % slower, 0.8 USD dearer per billion tokens."
std::string summary_of(const SpecComparison& comparison, const std::vector<DifferingKey>& keys,
                       const std::vector<FigureRow>& rows);

/// Good where B fits and A does not or where all is less, bad where it fits no more.
Tone tone_of(const SpecComparison& comparison);

}  // namespace memest
