// How far an estimate may be from a real run: quantiles of its residuals over recorded runs, from
// configs/residuals.
#pragma once

#include <optional>

#include "memest/spec/training.hpp"

namespace memest {

/// What an estimate was made by.
enum class EstimateMethod { closed_form, replay };

/// Shares of the closed form's `allocated`, or of the replay's `reserved`. Both ends are quantiles
/// over the same records.
struct Margin {
  EstimateMethod method = EstimateMethod::closed_form;
  double low = 0;  ///< the run's peak (allocated, or reserved) may be this share below the estimate
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
