// The costs of parts of a model, from the prices of their operations.
#pragma once

#include <vector>

#include "memest/time/priced_model.hpp"
#include "time/launch_rate.hpp"

namespace memest {

struct OpCosts {
  const StepWork& work;
  const std::vector<OpPrice>& prices;
  Outlook outlook;
  double share;  ///< of a step that kernels explain

  /// The costs of one execution of each block.
  [[nodiscard]] std::vector<PartCost> of_blocks() const;
  /// The part of them that no stage of a pipeline runs.
  [[nodiscard]] PartCost of_sums_between_ends() const;

 private:
  [[nodiscard]] PassTimes of(std::size_t index) const;
};

/// Makes each pass as long as the host takes to launch it, where that is longer. The host runs
/// ahead of kernels that take longer than their launches, and is waited for by others; the
/// backward's thread launches what recomputes too.
void wait_for_launches(PassTimes& passes, const LaunchRates& rates, Outlook outlook);

}  // namespace memest
