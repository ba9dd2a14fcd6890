#include "memory/deepspeed/forward_calls.hpp"

#include <cstddef>

namespace memest {

void ForwardCalls::before_op(const OpSite& site, WeightCoordinator& coordinator) const {
  for (const CalledModule& called : of(site)) {
    if (called.call.begins && called.call.begin == site.op) {
      if (evaluates_) {
        coordinator.before_evaluation(called.module);
      } else {
        coordinator.before_forward(called.module);
      }
    }
    if (called.reads.empty() || called.call.read_before != site.op) continue;
    coordinator.read(called.module, called.reads);
  }
}

void ForwardCalls::after_op(const OpSite& site, WeightCoordinator& coordinator) const {
  const std::vector<CalledModule>& modules = of(site);
  for (std::size_t i = modules.size(); i > 0; --i) {
    const CalledModule& called = modules[i - 1];
    if (called.call.ends && called.call.end == site.op + 1)
      coordinator.after_forward(called.module);
  }
}

}  // namespace memest
