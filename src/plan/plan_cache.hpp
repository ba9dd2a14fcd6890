// What candidates of a search share: a graph is lowered once for each kind of GPU, a ledger written
// once for each policy, the work of a step evaluated once for each micro-batch. A candidate is then
// a few look-ups.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/step_time.hpp"
#include "memest/time/work.hpp"
#include "refusal.hpp"

namespace memest {

/// What of a GPU decides the graph and the ledger: not its capacity and not its rates.
struct DeviceClass {
  int capability = 80;
  std::int64_t context = 0;
  std::int64_t context_low = 0;
  std::int64_t context_high = 0;

  auto operator<=>(const DeviceClass&) const = default;
};
DeviceClass class_of(const GpuSpec& gpu);

/// What decides a ledger. `recompute` is an index into the search's choices.
struct LedgerKey {
  DeviceClass device;
  const Graph* graph = nullptr;
  bool accumulates = false;  ///< more than one micro-step: gradients outlive the backward
  std::int64_t gpus = 1;
  ZeroStage zero = ZeroStage::none;
  std::size_t recompute = 0;

  auto operator<=>(const LedgerKey&) const = default;
};

struct LedgerEntry {
  Ledger ledger;
  Bytes outside;                                      ///< expected bytes outside the allocator
  std::map<std::int64_t, Bytes> peaks;                ///< by micro-batch
  std::map<std::int64_t, std::vector<Lever>> levers;  ///< by micro-batch
};

class PlanCache {
 public:
  /// The graph for `job` (its GPU, sequence length and micro-batch), or why there is none.
  const std::variant<Graph, Unavailable>& graph_of(const Job& job);
  /// The ledger of `job`; `graph` is its graph.
  LedgerEntry& ledger_of(const LedgerKey& key, const Graph& graph, const Job& job);
  /// The work of one step of `job`; accumulation is the job's.
  const StepWork& work_of(const Graph& graph, const Job& job, std::size_t recompute);
  /// What the calls of `work`, of `graph` at the job's micro-batch, take by `laws`: the same for
  /// every recompute and parallelism.
  const std::vector<OpPrice>& prices_of(const Graph& graph, const Job& job, const StepWork& work,
                                        const GpuLaws& laws);
  /// Prices are of one GPU type: the next ones are of another.
  void drop_prices() { prices_.clear(); }

 private:
  /// By capability, multiprocessors and micro-batch.
  using GraphKey = std::tuple<int, std::int64_t, std::int64_t>;
  struct WorkKey {
    const Graph* graph = nullptr;
    std::int64_t micro_batch = 1;
    std::size_t recompute = 0;

    auto operator<=>(const WorkKey&) const = default;
  };
  /// Most micro-batches and many capabilities lower alike: the keys of equal formulas share one
  /// graph.
  std::map<GraphKey, const std::variant<Graph, Unavailable>*> graphs_;
  std::deque<std::variant<Graph, Unavailable>> distinct_graphs_;
  std::map<LedgerKey, LedgerEntry> ledgers_;
  std::map<WorkKey, StepWork> works_;
  std::map<std::pair<const Graph*, std::int64_t>, std::vector<OpPrice>> prices_;  ///< micro-batch
};

/// The memory of `entry` at the job's micro-batch with its peak alone, no terms: enough to judge.
MemoryEstimate peak_of(LedgerEntry& entry, std::int64_t micro_batch, std::int64_t seq_len);

}  // namespace memest
