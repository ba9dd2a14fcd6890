// Differences of a ledger as a drawing.
#pragma once

#include <optional>
#include <vector>

#include "memest/report/chart.hpp"
#include "report/diff/figures.hpp"

namespace memest {

/// How much more each term of the ledger takes, a lane each; absent where none differs.
std::optional<Chart> terms_chart(const std::vector<FigureRow>& figures);

}  // namespace memest
