// The ledger of steps that were replayed, read off their events: what is alive at the peak, grouped
// by what it is, each group with its formula.
#pragma once

#include "memest/memory/ledger.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

/// Where a replay's peak is taken from. `closed`, the closed form of the same rank, has the
/// bindings, the margin and the terms outside the allocator.
struct ReplayedPeak {
  const Graph& graph;
  const Job& job;
  const Timeline& timeline;
  const PeakMoment& peak;
  const Ledger& closed;
};

/// One instant, whose terms add up to `peak.allocated`: the bytes asked for by group, and what the
/// allocator's blocks take beyond them. A group whose sizes the graph knows has their formula;
/// states, buffers and workspaces have that of the field where it says the same bytes; of the
/// others the formula is the number, and the rule says how many storages it counts. Throws
/// OverflowError.
Ledger alive_ledger(const ReplayedPeak& replayed);

}  // namespace memest
