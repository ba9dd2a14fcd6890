// A recorded run held to a budget and to a lock.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "memest/plan/lock.hpp"
#include "memest/plan/recorded_needs.hpp"

namespace memest {
namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30U;

RecordedNeeds needs_of(std::int64_t reserved) {
  RecordedTime time;
  time.step = Seconds(0.1);
  time.low = Seconds(0.08);
  time.high = Seconds(0.13);
  time.flops = Flops(4'000'000);
  return {.capacity = Bytes(16 * kGib),
          .fits = true,
          .whole = true,
          .allocated = Bytes(reserved - kGib),
          .reserved = Bytes(reserved),
          .context = Bytes(kGib / 2),
          .time = time};
}

BudgetStatus status_of(const Budget& budget, BudgetItem item, const RecordedNeeds& needs) {
  for (const BudgetLine& line : hold_to_budget(budget, needs)) {
    if (line.item == item) return line.status;
  }
  FAIL("no line of " << name_of(item));
  return {};
}

TEST_CASE("memory is held to the byte, the context in it, a step's time within its interval") {
  const RecordedNeeds needs = needs_of(8 * kGib);
  Budget budget;
  CHECK(hold_to_budget(budget, needs).size() == 1);  // the capacity
  budget.memory = Bytes(8 * kGib + kGib / 2);
  CHECK(status_of(budget, BudgetItem::memory, needs) == BudgetStatus::within);
  budget.memory = *budget.memory - Bytes(1);
  CHECK(status_of(budget, BudgetItem::memory, needs) == BudgetStatus::over);
  budget.step_time = Seconds(0.12);
  CHECK(status_of(budget, BudgetItem::step_time, needs) == BudgetStatus::too_close);
  budget.margin = 0.2;
  CHECK(status_of(budget, BudgetItem::step_time, needs) == BudgetStatus::over);
  budget.flops = Flops(5'000'000);
  CHECK(status_of(budget, BudgetItem::flops, needs) == BudgetStatus::within);
  budget.cost_per_billion_tokens = Dollars(1);
  CHECK(status_of(budget, BudgetItem::cost_per_billion_tokens, needs) == BudgetStatus::unavailable);
}

TEST_CASE("a run that is not granted is over its capacity, whatever it takes elsewhere") {
  RecordedNeeds needs = needs_of(8 * kGib);
  needs.fits = false;
  CHECK(status_of({}, BudgetItem::capacity, needs) == BudgetStatus::over);
  needs.time = {};
  needs.capacity.reset();
  CHECK(hold_to_budget({}, needs).empty());
  Budget budget;
  budget.step_time = Seconds(1);
  CHECK(hold_to_budget(budget, needs).front().sentence ==
        "no step's work is recorded, or there is no GPU to time it on");
}

TEST_CASE("a program that failed where it was recorded is within nothing, and over what it took") {
  RecordedNeeds needs = needs_of(8 * kGib);
  needs.whole = false;
  Budget budget;
  budget.memory = Bytes(12 * kGib);
  CHECK(status_of(budget, BudgetItem::capacity, needs) == BudgetStatus::unavailable);
  CHECK(status_of(budget, BudgetItem::memory, needs) == BudgetStatus::unavailable);
  budget.memory = Bytes(4 * kGib);
  CHECK(status_of(budget, BudgetItem::memory, needs) == BudgetStatus::over);
  needs.fits = false;
  CHECK(status_of(budget, BudgetItem::capacity, needs) == BudgetStatus::over);
  needs.fits = true;
  needs.capacity.reset();
  CHECK(status_of({}, BudgetItem::memory, needs) == BudgetStatus::unavailable);
}

TEST_CASE("a lock keeps what a recorded run needs, and tells what moved") {
  LockedSpec before;
  LockedSpec after;
  put_figures(needs_of(8 * kGib), before);
  put_figures(needs_of(9 * kGib), after);
  const SpecMoves moves = moves_between(before, after, kLockTolerance);
  CHECK(moves.figures.size() == 3);  // device, reserved, allocated
  CHECK(headline_of(moves)->name == "device");
  CHECK(headline_of(moves)->difference() == static_cast<double>(kGib));
}

}  // namespace
}  // namespace memest
