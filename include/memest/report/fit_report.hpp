// The answer of `memest fit`: what makes a job fit, as a ladder, with the words of the program that
// trains.
#pragma once

#include <string>

#include "memest/plan/fit.hpp"
#include "memest/report/report.hpp"

namespace memest {

Report report_fit(const Job& job, const FitLadder& ladder, const Question& question);

/// Memory against the step's time, a mark a rung, the front joined, as one SVG file. Rungs whose
/// time is not known are left out.
std::string ladder_svg(const FitLadder& ladder);

}  // namespace memest
