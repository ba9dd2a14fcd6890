#include "memest/memory/state_ledger.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "memest/spec/parallel/sharding.hpp"
#include "memory/ledger/ledger_terms.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"

namespace memest {
namespace {

/// DeepSpeed reduces gradients into buffers of its own, and a step on the host gives them away.
bool steps_with_all_gradients(const Job& job) {
  return !shards_by<DeepSpeedZero>(job) && !job.parallelism.offload.any();
}

}  // namespace

Ledger write_state_ledger(const Graph& graph, const Job& job, const LedgerOptions& options) {
  LedgerTerms terms(graph, job, options.pipeline_rank);
  std::vector<std::uint16_t> alive;
  const auto add = [&](LedgerTerm term) {
    if (!term.formula.is_zero()) alive.push_back(terms.add(std::move(term)));
  };
  for (LedgerTerm& term : weight_terms(job, graph.parameters)) add(std::move(term));
  for (LedgerTerm& term : master_terms(job, graph.parameters)) add(std::move(term));
  const bool all_gradients = steps_with_all_gradients(job);
  if (all_gradients || !makes_states_in_step(*job.training)) {
    for (LedgerTerm& term : state_terms(job, graph.parameters)) add(std::move(term));
  }
  if (all_gradients) add(gradient_term(job, graph.parameters));
  terms.instant("states", "states", std::move(alive));
  OutsideTerms outside = outside_terms(job);
  for (LedgerTerm& term : outside.terms) terms.outside(std::move(term));
  Ledger ledger = std::move(terms).take(options.scope);
  ledger.outside_low = outside.low;
  ledger.outside_high = outside.high;
  ledger.margin = margin_of(job.margins().closed_form, job.training->recompute);
  return ledger;
}

}  // namespace memest
