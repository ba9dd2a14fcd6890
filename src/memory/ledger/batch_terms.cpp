// Batches that a loop holds beside the one that runs.
#include "memest/spec/framework.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/ledger/graph_terms.hpp"

namespace memest {
namespace {

/// context_parallel writes the rank's part of ids, labels and table into what they are of: beside
/// those are the parts, the table as it was and the last part's copy.
std::vector<LedgerTerm> cut_in_place_terms() {
  const Expr tokens = Expr(Symbol::micro_batch) * Expr(Symbol::seq_len);
  const Expr ids = tokens * size_of(DType::int64);
  const Expr row = Expr(Symbol::head_dim) * size_of(DType::fp32);
  return {{"whole sequences of the micro-batch, and the rank's part", TermGroup::buffers,
           ids * (Expr(2) * Symbol::context + Expr(1)), "torchtitan 0.1.0, batch_generator", ""},
          {"table of rotations as it was, and the rank's part", TermGroup::buffers,
           Expr(Symbol::seq_len) * row * (Expr(Symbol::context) + Expr(2)),
           "torch.distributed.tensor.experimental, context_parallel", ""}};
}

/// The loop holds whole sequences that lie on several ranks, and a rank's labels and positions
/// beside its inputs. All micro-batches of a pipeline are one batch.
std::vector<LedgerTerm> whole_batch_terms(const Job& job) {
  const Expr tokens = Expr(Symbol::micro_batch) * Expr(Symbol::seq_len);
  const Expr id = Expr(size_of(DType::int64));
  const Expr position = Expr(size_of(DType::int32));
  const Expr count = Symbol::micro_batches;
  const bool pipeline = job.parallelism.pipeline > 1;
  const Expr share = pipeline ? count * (Expr(2) * id + position) : id + position;
  // LedgerStages has the whole batch of a pipeline.
  const Expr whole = pipeline ? Expr() : (count + 1) * id * Expr(Symbol::context);
  return {{"whole sequences of the step, and the rank's part", TermGroup::buffers,
           tokens * (whole + share),
           "torchtitan 0.2.2, prepare_context_parallel_input: the list of the step's batches keeps "
           "their inputs",
           ""}};
}

/// Tokens, labels, positions and loss mask of all micro-steps, and where the loader makes attention
/// masks, those.
LedgerTerm static_batches_term(const Job& job) {
  const Expr tokens = Expr(Symbol::micro_batch) * Expr(Symbol::seq_len);
  constexpr std::int64_t kIds = 3;
  const std::int64_t of_token = kIds * size_of(DType::int64) + size_of(DType::fp32);
  return {"batches of the step on the device", TermGroup::buffers,
          Expr(Symbol::micro_batches) * (of_token * tokens + loaded_mask_term(job).formula),
          "megatron-core 0.16.1, full_cuda_graph.py, StaticBufferLoader", ""};
}

}  // namespace

std::vector<LedgerTerm> earlier_batch_terms(const Graph& graph, const Job& job) {
  const TrainingSpec& training = *job.training;
  if (training.implementation.cuda_graph.full_iteration) return {static_batches_term(job)};
  if (!row_of(training.implementation.loop).keeps_batches) return {};
  const bool lists = !loop_habits_of(training.implementation).generates_batches;
  if (job.parallelism.context > 1) {
    return lists ? whole_batch_terms(job) : cut_in_place_terms();
  }
  if (!lists) return {};
  if (job.parallelism.pipeline > 1) return {};  // LedgerStages has them
  if (training.gradient_accumulation == 1) return {};
  return {{"batches of the step's earlier micro-steps", TermGroup::buffers,
           (Expr(Symbol::micro_batches) - 1) * batch_term(graph).formula,
           "torchtitan 0.2.2, train_step: the list of the step's batches keeps their inputs", ""}};
}

}  // namespace memest
