#include "plan_cache.hpp"

#include <algorithm>
#include <utility>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

/// Whether two graphs differ at most in the sizes bound to their letters.
bool same_formulas(const std::variant<Graph, Unavailable>& left,
                   const std::variant<Graph, Unavailable>& right) {
  const auto* graph = std::get_if<Graph>(&left);
  const auto* other = std::get_if<Graph>(&right);
  return graph != nullptr && other != nullptr && graph->order == other->order &&
         graph->blocks == other->blocks;
}

}  // namespace

DeviceClass class_of(const GpuSpec& gpu) {
  DeviceClass result;
  result.capability = capability_of(gpu).value;
  if (!gpu.context) return result;
  result.context = gpu.context->value.value();
  const BytesRange range =
      gpu.context_range.value_or(BytesRange{gpu.context->value, gpu.context->value});
  result.context_low = range.low.value();
  result.context_high = range.high.value();
  return result;
}

const std::variant<Graph, Unavailable>& PlanCache::graph_of(const Job& job) {
  const LoweringPolicy policy = policy_of(job);
  const GraphKey key{policy.capability, policy.multiprocessors, policy.micro_batch};
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) return *found->second;
  auto lowered = lower(job.model, policy);
  const auto equal = std::find_if(
      distinct_graphs_.begin(), distinct_graphs_.end(),
      [&](const std::variant<Graph, Unavailable>& other) { return same_formulas(other, lowered); });
  const std::variant<Graph, Unavailable>& graph =
      equal != distinct_graphs_.end() ? *equal : distinct_graphs_.emplace_back(std::move(lowered));
  graphs_.emplace(key, &graph);
  return graph;
}

LedgerEntry& PlanCache::ledger_of(const LedgerKey& key, const Graph& graph, const Job& job) {
  const auto found = ledgers_.find(key);
  if (found != ledgers_.end()) return found->second;
  LedgerEntry entry;
  entry.ledger = write_ledger(graph, job);
  for (const std::uint16_t term : entry.ledger.outside_allocator) {
    entry.outside += entry.ledger.terms[term].formula.bytes(entry.ledger.bindings);
  }
  return ledgers_.emplace(key, std::move(entry)).first->second;
}

const StepWork& PlanCache::work_of(const Graph& graph, const Job& job, std::size_t recompute) {
  const WorkKey key{&graph, job.training->micro_batch, recompute};
  auto found = works_.find(key);
  if (found == works_.end()) found = works_.emplace(key, memest::work_of(graph, job)).first;
  found->second.micro_steps = static_cast<double>(job.training->gradient_accumulation);
  return found->second;
}

const std::vector<OpPrice>& PlanCache::prices_of(const Graph& graph, const Job& job,
                                                 const StepWork& work, const GpuLaws& laws) {
  const std::pair key{&graph, job.training->micro_batch};
  const auto found = prices_.find(key);
  if (found != prices_.end()) return found->second;
  return prices_.emplace(key, price_ops(work, laws)).first->second;
}

MemoryEstimate peak_of(LedgerEntry& entry, std::int64_t micro_batch, std::int64_t seq_len) {
  auto peak = entry.peaks.find(micro_batch);
  if (peak == entry.peaks.end()) {
    const Bytes bytes =
        peak_allocated(entry.ledger, bindings_at(entry.ledger, micro_batch, seq_len));
    peak = entry.peaks.emplace(micro_batch, bytes).first;
  }
  MemoryEstimate estimate;
  estimate.instants = {{.index = 0, .total = peak->second}};
  estimate.margin = entry.ledger.margin;
  estimate.outside = entry.outside;
  estimate.outside_low = entry.ledger.outside_low;
  estimate.outside_high = entry.ledger.outside_high;
  return estimate;
}

}  // namespace memest
