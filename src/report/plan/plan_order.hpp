// How sure the order of layouts is.
#pragma once

#include <string>

#include "memest/plan/search.hpp"
#include "report/plan/plan_layout.hpp"

namespace memest {

/// Says what a first layout has lost in published cells, and the rivals of `first` whose predicted pace
/// is no farther from its own; empty where it has no time or no cell was published.
std::string order_text(const PlanVerdict& first, const OrderMargin& order, Splits splits);

}  // namespace memest
