#include "memest/memory/margin.hpp"

namespace memest {

Margin margin_of(const TrainingSpec& training) {
  // Until residuals are recorded: reserved over allocated of 253 recorded runs is 1.09 in the
  // median and 1.21 at the 90th percentile.
  (void)training;
  return {.low = 0.05,
          .high = 0.21,
          .records = 253,
          .source = "90th percentile of reserved over allocated"};
}

}  // namespace memest
