// The bytes that a rank holds whatever it computes: the least that its memory can be.
#pragma once

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"

namespace memest {

/// Weights, master copies and optimizer states with, where the optimizer's step has them all, the
/// gradients: one instant, which is never above the peak of write_ledger() of the same job, graph
/// and options. The job trains. Throws OverflowError.
Ledger write_state_ledger(const Graph& graph, const Job& job, const LedgerOptions& options);

}  // namespace memest
