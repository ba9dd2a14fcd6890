// What the closed form has no formulas for.
#include <variant>

#include "memest/memory/ledger.hpp"

namespace memest {

std::optional<Unavailable> beyond_the_formulas(const Job& job) {
  if (job.model.adapter && job.parallelism.data > 1) {
    return Unavailable{"adapters trained on several GPUs are not available yet"};
  }
  if (job.forward()->implementation.framework == Framework::megatron) {
    return Unavailable{"the closed form of the implementation megatron is not available yet"};
  }
  const Recompute recompute = job.recompute();
  const bool by_operator = std::holds_alternative<SelectiveRecompute>(recompute) ||
                           std::holds_alternative<EveryRecompute>(recompute);
  if (by_operator && job.forward()->implementation.framework == Framework::torchtitan) {
    return Unavailable{"the closed form does not know torchtitan's selective recompute"};
  }
  return std::nullopt;
}

std::optional<Unavailable> beyond_the_closed_form(const Job& job) {
  if (auto reason = beyond_the_formulas(job)) return reason;
  if (job.allocator == AllocatorSettings()) return {};
  return Unavailable{"the closed form knows no segments, so not what 'allocator' changes in them"};
}

}  // namespace memest
