// A ledger for a job whose closed form is not known: what the replay found alive at its peak.
#include "memest/diag/expect.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/memory/step_replay.hpp"

namespace memest {
namespace {

TermGroup group_of(Holding holding) {
  switch (holding) {
    case Holding::weights:
    case Holding::gathered_weights:
      return TermGroup::weights;
    case Holding::gradients:
      return TermGroup::gradients;
    case Holding::optimizer_states:
      return TermGroup::optimizer;
    case Holding::batch:
    case Holding::activations:
    case Holding::cast_weights:
    case Holding::passing_gradients:
    case Holding::temporaries:
      return TermGroup::activations;
    case Holding::buffers:
    case Holding::collective_buffers:
      return TermGroup::buffers;
    case Holding::workspaces:
      return TermGroup::overhead;
  }
  unreachable("every holding is of a group");
}

}  // namespace

Ledger replayed_ledger(const Ledger& formulas, const StepReplay& replay) {
  Ledger ledger;
  ledger.bindings = formulas.bindings;
  ledger.margin = formulas.margin;
  ledger.outside_low = formulas.outside_low;
  ledger.outside_high = formulas.outside_high;
  Instant peak{"the replay's peak", {}};
  const auto add = [&ledger](LedgerTerm term) {
    ledger.by_size.emplace_back(term.formula, ledger.bindings);
    ledger.terms.push_back(std::move(term));
    return static_cast<std::uint16_t>(ledger.terms.size() - 1);
  };
  for (std::size_t i = 0; i < kHoldings; ++i) {
    const Bytes bytes = replay.peak.by_holding[i];
    if (bytes == Bytes()) continue;
    const auto holding = static_cast<Holding>(i);
    peak.terms.push_back(add({std::string(name_of(holding)), group_of(holding), Expr(bytes.value()),
                              "blocks of the allocator's replay", "alive at the replay's peak"}));
  }
  for (const std::uint16_t term : formulas.outside_allocator) {
    ledger.outside_allocator.push_back(add(formulas.terms[term]));
  }
  ledger.instants = {std::move(peak)};
  return ledger;
}

}  // namespace memest
