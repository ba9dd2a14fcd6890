// A number held to its budget.
#pragma once

#include "memest/plan/budget.hpp"

namespace memest {

/// In the budget's base unit.
struct HeldNumber {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// The expected value decides between over and within, the interval only whether it is close.
BudgetLine line_of(BudgetItem item, double limit, const HeldNumber& held);

}  // namespace memest
