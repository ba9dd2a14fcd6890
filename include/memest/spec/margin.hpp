// How far an estimate may be from a real run: quantiles of its residuals over recorded runs, from
// configs/residuals.
#pragma once

#include <optional>

#include "memest/spec/training.hpp"

namespace memest {

/// Shares of the estimated `allocated`. Both ends are quantiles over the same records.
struct Margin {
  double low = 0;   ///< the run's allocated peak may be this share below the estimate
  double high = 0;  ///< the run's reserved peak may be this share above the estimate
  int records = 0;  ///< behind the two quantiles
  std::optional<Framework> implementation = {};  ///< whose runs they are; none: of all
  bool recomputes = false;                       ///< whether they recompute
};

/// The margins of one implementation.
struct Margins {
  Margin kept;
  Margin recomputed;
};

const Margin& margin_of(const Margins& margins, const Recompute& recompute);

}  // namespace memest
