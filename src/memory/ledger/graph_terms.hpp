// Terms that the ledger reads off a whole graph: tables, batch, residual stream, logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memory/engine/sites.hpp"

namespace memest {

/// Bytes of tables made once for the whole model and kept by the first block that uses them.
Expr shared_bytes(const Graph& graph);

/// Bytes of the input of a checkpointable block: the residual stream.
Expr layer_input_bytes(const Block& block);

/// Bytes of what stages send one another: what layers take and answer, and of a stage without any
/// what the embedding answers or the head takes.
Expr sent_bytes(const Graph& graph);

/// Whether all of a rank's stages have as many layers.
bool has_equal_stages(const Graph& graph);

/// A tensor that one block makes for later ones and that autograd keeps nowhere: a mask, the input
/// embeddings, a row of positions. The model's forward holds it.
struct PassedOn {
  Expr bytes;
  std::size_t maker = 0;    ///< index into Graph::blocks
  std::size_t last = 0;     ///< the block where the model lets it go
  bool for_layers = false;  ///< layers are called with it, so that their checkpoints hold it
  /// The layer whose input it is, into Graph::blocks: while that runs, the input is counted there.
  std::optional<std::size_t> enters = {};
  bool kept_by_layer = false;  ///< and autograd keeps that layer's input

  /// Whether the model holds it in the forward pass at a site, where nothing else counts it.
  [[nodiscard]] bool is_held_forward(const Site& site, bool checkpoints) const;
  /// Whether checkpoints hold it in the backward pass. A model's forward has returned by then: its
  /// locals live on only in the arguments of checkpoints.
  [[nodiscard]] bool is_held_by_checkpoints(const Site& site) const {
    return for_layers && site.before[maker] != 0;
  }
};
std::vector<PassedOn> passed_on(const Graph& graph);

/// Bytes of what a pipeline rank names between its stages beside what is under way, where `stream`
/// bytes go from stage to stage.
Expr passing_bytes(const Graph& graph, const Expr& stream);

/// Tensors that the blocks before a site return to the model's caller beside the logits and
/// autograd keeps nowhere, `before` of each: key-value caches.
LedgerTerm answered_term(const Graph& graph, const std::vector<std::int64_t>& before);

/// The step's batch, which the loop holds.
LedgerTerm batch_term(const Graph& graph);

/// Batches of the micro-steps before the running one, which a loop holds.
std::vector<LedgerTerm> earlier_batch_terms(const Graph& graph, const Job& job);

/// Tensors that the step and the micro-step before have bound to their reentrant checkpoints
/// (rotary tables, position ids), where a loop keeps their loss: while a forward runs, or a
/// backward.
LedgerTerm earlier_arguments_term(const Graph& graph, const Job& job, bool backward);

/// Whether autograd keeps the batch anyway: token ids, or what the first operation reads.
bool batch_is_kept(const Graph& graph);

/// The logits where the loop keeps the model's outputs.
LedgerTerm held_logits_term(const Graph& graph);

/// The attention mask that Megatron's training program loads for a micro-step; zero where another
/// program trains.
LedgerTerm loaded_mask_term(const Job& job);

/// Tensors that Megatron-core's process keeps from its first forward on: the buffer that only
/// grows, as large as an operation asks for, and tables made once.
std::vector<LedgerTerm> process_terms(const Graph& graph);

/// The weights and buffers of a distillation's teacher, which are none of the model's.
std::vector<LedgerTerm> teacher_terms(const Graph& graph, const Job& job);

/// Indices of the polynomials that no other one dominates; of equal ones the first.
std::vector<std::size_t> undominated(const std::vector<SizePolynomial>& totals);

}  // namespace memest
