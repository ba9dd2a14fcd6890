#include "time/part_costs.hpp"

#include <algorithm>

namespace memest {

PassTimes& PassTimes::operator+=(const PassTimes& other) {
  forward += other.forward;
  backward += other.backward;
  recompute += other.recompute;
  weights += other.weights;
  launching += other.launching;
  launches.forward += other.launches.forward;
  launches.backward += other.launches.backward;
  launches.recompute += other.launches.recompute;
  return *this;
}

PassTimes& PassTimes::operator-=(const PassTimes& other) {
  forward -= other.forward;
  backward -= other.backward;
  recompute -= other.recompute;
  weights -= other.weights;
  launching -= other.launching;
  launches.forward -= other.launches.forward;
  launches.backward -= other.launches.backward;
  launches.recompute -= other.launches.recompute;
  return *this;
}

PartCost& PartCost::operator+=(const PartCost& other) {
  passes += other.passes;
  weights += other.weights;
  trained += other.trained;
  trained_experts += other.trained_experts;
  return *this;
}

PartCost& PartCost::operator-=(const PartCost& other) {
  passes -= other.passes;
  weights -= other.weights;
  trained -= other.trained;
  trained_experts -= other.trained_experts;
  return *this;
}

PassTimes OpCosts::of(std::size_t index) const {
  const OpWork& op = work.ops[index];
  const OpPrice& price = prices[index];
  PassTimes passes;
  // A table made in the first forward is no part of a later step.
  if (op.op->once || op.executions == 0) return passes;
  const double forward = price.forward.at(outlook) / share + price.forward_messages.at(outlook);
  passes.forward = forward;
  passes.backward = price.backward.at(outlook) / share + price.backward_messages.at(outlook);
  // Layers of a block may differ in whether they are recomputed: each gets the mean.
  passes.recompute = op.recomputations / op.executions * forward +
                     op.recasts / op.executions * price.casts.at(outlook) / share;
  passes.weights = price.weights / share;
  passes.launches.forward = op.launches.forward;
  passes.launches.backward = op.launches.backward;
  passes.launches.recompute =
      (op.recomputations * op.launches.forward + op.recasts) / op.executions;
  return passes;
}

std::vector<PartCost> OpCosts::of_blocks() const {
  std::vector<PartCost> costs(work.weights.size());
  for (std::size_t i = 0; i < prices.size(); ++i) costs[work.ops[i].block].passes += of(i);
  for (std::size_t block = 0; block < costs.size(); ++block) {
    costs[block].weights = work.weights[block].all;
    costs[block].trained = work.weights[block].trained;
    costs[block].trained_experts = work.weights[block].trained_experts;
  }
  return costs;
}

PartCost OpCosts::of_sums_between_ends() const {
  PartCost cost;
  for (std::size_t i = 0; i < prices.size(); ++i) {
    if (work.ops[i].sums == GradientSums::of_ends) cost.passes += of(i);
  }
  return cost;
}

void wait_for_launches(PassTimes& passes, const LaunchRates& rates, Outlook outlook) {
  const PassLaunches& launches = passes.launches;
  const double forward = launches.forward * rates.forward.at(outlook);
  const double backward = launches.backward * rates.backward.at(outlook) +
                          launches.recompute * rates.forward.at(outlook);
  const double behind_forward = std::max(0.0, forward - passes.forward);
  const double behind_backward = std::max(0.0, backward - passes.backward - passes.recompute);
  passes.forward += behind_forward;
  passes.backward += behind_backward;
  passes.launching = behind_forward + behind_backward;
}

}  // namespace memest
