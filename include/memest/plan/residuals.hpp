// From recorded runs to the margins of an estimate.
#pragma once

#include <vector>

#include "memest/plan/validation.hpp"
#include "memest/spec/margin.hpp"

namespace memest {

/// A margin over all runs that keep everything, one over all that recompute, and one of each
/// implementation that has records enough for quantiles of its own. `low` is the largest share by
/// which an allocated peak lay below its prediction, `high` the 90th percentile of what was
/// reserved over the predicted allocated peak: segments of whole MiB and the holes between blocks.
/// Both are rounded up to two significant digits, or to a hundredth of a percent.
std::vector<Margin> margins_of(const std::vector<ValidatedRun>& runs);

}  // namespace memest
