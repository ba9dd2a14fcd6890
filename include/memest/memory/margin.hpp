// How far the closed form may be from a real run: quantiles of its residuals over recorded runs.
#pragma once

#include <string_view>

#include "memest/spec/training.hpp"

namespace memest {

/// Shares of `allocated`. Both ends are quantiles over the same records.
struct Margin {
  double low = 0;   ///< the run's allocated peak may be this share below the estimate
  double high = 0;  ///< the run's reserved peak may be this share above the estimate
  int records = 0;  ///< behind the two quantiles
  std::string_view source;
};

/// The margin of runs like `training`.
Margin margin_of(const TrainingSpec& training);

}  // namespace memest
