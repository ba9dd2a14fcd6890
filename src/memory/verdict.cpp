#include <algorithm>
#include <cstdint>
#include <limits>

#include "memest/memory/ledger.hpp"
#include "memest/units/int128.hpp"

namespace memest {

Capacity capacity_of(const Hardware& hardware) {
  if (hardware.memory) return {*hardware.memory, true};
  return {hardware.gpu.capacity.value, false};
}

Verdict worse_of(Verdict left, Verdict right) {
  if (left == Verdict::does_not_fit || right == Verdict::does_not_fit) return Verdict::does_not_fit;
  return left == Verdict::fits ? right : left;
}

Verdict judge(const MemoryEstimate& estimate, const Capacity& capacity) {
  Bytes low = estimate.low();
  Bytes high = estimate.high();
  if (capacity.allocator_limit) {  // context and libraries are not taken off the allocator's limit
    low -= estimate.outside_low;
    high -= estimate.outside_high;
  }
  if (high <= capacity.bytes) return Verdict::fits;
  return low > capacity.bytes ? Verdict::does_not_fit : Verdict::too_close_to_call;
}

SimpleView simple_view(const Ledger& ledger, const Capacity& capacity) {
  const std::int64_t seq_len =
      checked_multiply(ledger.bindings.at(Symbol::seq_len), context_ranks(ledger.bindings));
  const auto estimate_at = [&](std::int64_t micro_batch) {
    return estimate_memory(ledger, bindings_at(ledger, micro_batch, seq_len));
  };
  const auto fits = [&](std::int64_t micro_batch) {
    return judge(estimate_at(micro_batch), capacity) == Verdict::fits;
  };
  std::int64_t fitting = 0;
  std::int64_t refused = 1;
  // An estimate grows at most linearly with the micro-batch, so the first that is refused is below
  // twice the capacity: no size overflows on the way.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  while (refused < kMost && fits(refused)) {
    fitting = refused;
    refused *= 2;
  }
  while (refused - fitting > 1) {
    const std::int64_t middle = fitting + (refused - fitting) / 2;
    (fits(middle) ? fitting : refused) = middle;
  }
  // The moment that grows is the one that binds where the batch is too large, not an optimizer step
  // that may be the peak of a small one.
  const std::int64_t beyond = std::max(fitting, ledger.bindings.at(Symbol::micro_batch)) + 1;
  const MemoryEstimate binding = estimate_at(beyond);
  const Bytes more = estimate_at(beyond + 1).instants[binding.peak].total;
  SimpleView view;
  view.largest_micro_batch = fitting;
  view.per_sequence = more - binding.allocated();
  view.fixed = binding.allocated() - view.per_sequence * beyond;
  return view;
}

}  // namespace memest
