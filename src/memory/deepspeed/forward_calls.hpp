// The modules that a model's forward calls, of which a coordinator is told.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/deepspeed/module_calls.hpp"
#include "memory/deepspeed/weight_coordinator.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {

/// A call, and the coordinator's numbers of its module and of the weights that it reads.
struct CalledModule {
  ModuleCall call;
  WeightCoordinator::Module module = 0;
  std::vector<std::uint32_t> reads = {};
};

class ForwardCalls {
 public:
  /// `calls`: of each instance of the forward order; an outer one comes before those inside it.
  ForwardCalls(std::vector<std::vector<CalledModule>> calls, bool evaluates)
      : calls_(std::move(calls)), evaluates_(evaluates) {}

  [[nodiscard]] const std::vector<CalledModule>& of(const OpSite& site) const {
    return calls_[site.instance];
  }
  /// The op is about to run, or has run.
  void before_op(const OpSite& site, WeightCoordinator& coordinator) const;
  void after_op(const OpSite& site, WeightCoordinator& coordinator) const;

 private:
  std::vector<std::vector<CalledModule>> calls_;
  bool evaluates_;  // under no_grad
};

}  // namespace memest
