// The words of a rung, shared by the page and the drawing of `memest fit`.
#pragma once

#include <string>
#include <vector>

#include "memest/plan/fit.hpp"

namespace memest {

/// "recompute every layer + fused optimizer"; "as written" without techniques.
std::string name_of(const Rung& rung, const FitLadder& ladder);

/// The keys that its techniques set, as --set takes them.
std::vector<std::string> sets_of(const Rung& rung, const FitLadder& ladder);

}  // namespace memest
