#include "graph_terms.hpp"

#include "moments.hpp"

namespace memest {

Expr shared_bytes(const Graph& graph) {
  Expr shared = graph.saved_bytes();
  for (const BlockRun& run : graph.order) {
    shared -= run.repeat * graph.blocks[run.block].saved_bytes(false);
  }
  return shared;
}

Expr layer_input_bytes(const Graph& graph) {
  for (const Block& block : graph.blocks) {
    if (block.checkpointable) return input_bytes(block);
  }
  return {};
}

LedgerTerm batch_term(const Graph& graph) {
  return {"batch", TermGroup::buffers, input_bytes(graph.blocks[graph.order.front().block]),
          "the loop holds the batch until the next one", ""};
}

bool batch_is_kept(const Graph& graph) {
  const Block& block = graph.blocks[graph.order.front().block];
  if (block.tensors[block.input].shared) return true;
  for (const Op& op : block.ops) {
    for (const TensorId id : op.saved) {
      if (block.tensors[id].storage == block.input) return true;
    }
  }
  return false;
}

LedgerTerm held_logits_term(const Graph& graph) {
  return {"logits held by the caller", TermGroup::activations,
          input_bytes(graph.blocks[graph.order.back().block]),
          "a loop that keeps the model's outputs keeps the logits until the next forward", ""};
}

std::vector<std::size_t> undominated(const std::vector<SizePolynomial>& totals) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    bool dominated = false;
    for (std::size_t other = 0; other < totals.size() && !dominated; ++other) {
      if (other == i || !totals[other].dominates(totals[i])) continue;
      dominated = other < i || !totals[i].dominates(totals[other]);
    }
    if (!dominated) result.push_back(i);
  }
  return result;
}

}  // namespace memest
