#include <algorithm>
#include <cstddef>

#include "memest/diag/expect.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/units/int128.hpp"
#include "memory/ledger/ledger_terms.hpp"
#include "memory/moments/term_values.hpp"

namespace memest {
namespace {

void evaluate_terms(const Ledger& ledger, const Bindings& bindings, TermValues& values) {
  const Sizes sizes = sizes_in(bindings);
  for (std::size_t i = 0; i < ledger.by_size.size(); ++i) {
    values[i] = ledger.by_size[i].evaluate(sizes);
  }
}

Bytes total_of(const Instant& instant, const TermValues& values) {
  std::int64_t total = 0;
  for (const std::uint16_t term : instant.terms) total = checked_add(total, values[term]);
  return Bytes(total);
}

}  // namespace

std::string_view name_of(TermGroup group) {
  switch (group) {
    case TermGroup::weights:
      return "weights";
    case TermGroup::gradients:
      return "gradients";
    case TermGroup::optimizer:
      return "optimizer";
    case TermGroup::activations:
      return "activations";
    case TermGroup::buffers:
      return "buffers";
    case TermGroup::overhead:
      return "overhead";
  }
  unreachable("every term group has a name");
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::does_not_fit:
      return "does-not-fit";
    case Verdict::too_close_to_call:
      return "too-close-to-call";
  }
  unreachable("every verdict has a name");
}

Bytes MemoryEstimate::low() const {
  return allocated() - share_rounded_up(allocated(), margin.low) + outside_low;
}

Bytes MemoryEstimate::high() const {
  return allocated() + share_rounded_up(allocated(), margin.high) + outside_high;
}

Bindings bindings_at(const Ledger& ledger, std::int64_t micro_batch, std::int64_t seq_len) {
  Bindings bindings = ledger.bindings;
  // Under context parallelism a rank has its share of every sequence.
  bind_tokens(bindings, micro_batch, seq_len / context_ranks(bindings));
  return bindings;
}

MemoryEstimate estimate_memory(const Ledger& ledger, const Bindings& bindings) {
  TermValues values(ledger.by_size.size());
  evaluate_terms(ledger, bindings, values);
  MemoryEstimate estimate;
  estimate.margin = ledger.margin;
  estimate.outside_low = ledger.outside_low;
  estimate.outside_high = ledger.outside_high;
  estimate.instants.reserve(ledger.instants.size());
  for (std::size_t i = 0; i < ledger.instants.size(); ++i) {
    const auto index = static_cast<std::uint16_t>(i);
    estimate.instants.push_back({index, total_of(ledger.instants[i], values)});
    // The first where several are as high: a later one adds nothing to what was needed before.
    if (estimate.instants[i].total > estimate.instants[estimate.peak].total) estimate.peak = index;
  }
  const Instant& peak = ledger.instants[estimate.peak];
  estimate.terms.reserve(peak.terms.size() + ledger.outside_allocator.size());
  for (const std::uint16_t term : peak.terms) estimate.terms.push_back({term, Bytes(values[term])});
  for (const std::uint16_t term : ledger.outside_allocator) {
    estimate.terms.push_back({term, Bytes(values[term])});
    estimate.outside += Bytes(values[term]);
  }
  return estimate;
}

Bytes peak_allocated(const Ledger& ledger, const Bindings& bindings) {
  TermValues values(ledger.by_size.size());
  evaluate_terms(ledger, bindings, values);
  Bytes peak;
  for (const Instant& instant : ledger.instants) {
    peak = std::max(peak, total_of(instant, values));
  }
  return peak;
}

}  // namespace memest
