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

std::vector<PartCost> costs_of_blocks(const StepWork& work, const std::vector<OpPrice>& prices,
                                      Outlook outlook, double share) {
  std::vector<PartCost> costs(work.weights.size());
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const OpWork& op = work.ops[i];
    // A table made in the first forward is no part of a later step.
    if (op.op->once || op.executions == 0) continue;
    PassTimes& passes = costs[op.block].passes;
    const double forward =
        prices[i].forward.at(outlook) / share + prices[i].forward_messages.at(outlook);
    passes.forward += forward;
    passes.backward +=
        prices[i].backward.at(outlook) / share + prices[i].backward_messages.at(outlook);
    // Layers of a block may differ in whether they are recomputed: each gets the mean.
    passes.recompute += op.recomputations / op.executions * forward +
                        op.recasts / op.executions * prices[i].casts.at(outlook) / share;
    passes.weights += prices[i].weights / share;
    passes.launches.forward += op.launches.forward;
    passes.launches.backward += op.launches.backward;
    passes.launches.recompute +=
        (op.recomputations * op.launches.forward + op.recasts) / op.executions;
  }
  for (std::size_t block = 0; block < costs.size(); ++block) {
    costs[block].weights = work.weights[block].all;
    costs[block].trained = work.weights[block].trained;
    costs[block].trained_experts = work.weights[block].trained_experts;
  }
  return costs;
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
