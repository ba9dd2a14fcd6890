// The parameters as the optimizer takes them.
#pragma once

#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/inventory.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/optimizer/optimizer_run.hpp"

namespace memest {

/// All that want a gradient, in the order of Module.parameters().
ParameterGroup parameters_in_order(const Inventory& inventory, const Timeline& timeline);

/// The optimizer's groups: what decays, where the loop makes the difference, and the rest.
std::vector<ParameterGroup> trained_groups(const Inventory& inventory, const Timeline& timeline,
                                           const LoopHabits& habits);

}  // namespace memest
