#include <utility>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/recompute/checkpoint_plan.hpp"

namespace memest {
namespace {

LoweringPolicy policy_of(const ForwardSpec& forward, ComputeCapability capability,
                         std::int64_t multiprocessors) {
  const Recipe& recipe = forward.recipe;
  LoweringPolicy policy;
  policy.implementation = forward.implementation;
  policy.float8 = forward.float8;
  policy.te_linears = forward.te_linears;
  policy.weights = recipe.passed_weights();
  if (recipe.casts_gathered()) policy.stored = recipe.weights;
  policy.casts_arguments = recipe.casts_gathered();
  policy.compute = recipe.compute;
  policy.autocast = recipe.autocast;
  policy.dropout = forward.dropout;
  policy.seq_len = forward.seq_len;
  policy.micro_batch = forward.micro_batch;
  policy.key_value_cache = forward.use_cache;
  policy.capability = capability;
  policy.multiprocessors = multiprocessors;
  return policy;
}

/// DataCollatorForLanguageModeling(padding_free=True): torch.cat(input_ids, dim=0) and so on.
void join_sequences(LoweringPolicy& policy, const PaddingFree& batch) {
  const std::int64_t sequences = std::exchange(policy.micro_batch, 1);
  policy.joined = JoinedSequences{sequences, batch.documents};
  policy.seq_len = checked_multiply(sequences, policy.seq_len);
  policy.completion_len = checked_multiply(sequences, policy.completion_len);
}

}  // namespace

LoweringPolicy policy_of(const TrainingSpec& training, ComputeCapability capability,
                         std::int64_t multiprocessors) {
  LoweringPolicy policy =
      policy_of(static_cast<const ForwardSpec&>(training), capability, multiprocessors);
  const bool recomputes = !std::holds_alternative<NoRecompute>(training.recompute);
  const auto* const selected = std::get_if<SelectiveRecompute>(&training.recompute);
  const bool selects = selected != nullptr;
  if (selects) policy.recomputed_parts = *selected;
  policy.embeddings_want_gradient = asks_embeddings_for_gradient(training);
  policy.runs_again = selects      ? RunsAgain::all_but_selected
                      : recomputes ? RunsAgain::all
                                   : RunsAgain::nothing;
  // Blocks that are recomputed are called without their cache (transformers, modeling_layers.py).
  if (recomputes) policy.key_value_cache = false;
  policy.keeps_contractions =
      row_of(training.implementation.framework).keeps_contractions && selects;
  // Recomputed tensors were never on the host.
  if (!recomputes) policy.saves_on_cpu = training.offload_activations;
  policy.offloads_layers = training.offloaded_layers > 0;
  policy.completion_len = training.completion_len;
  if (training.padding_free) join_sequences(policy, *training.padding_free);
  policy.teacher = training.teacher;
  if (training.loss == TrainingLoss::sum_of_logits) policy.end = ForwardEnd::sum_of_logits;
  return policy;
}

LoweringPolicy policy_of(const InferenceSpec& inference, ComputeCapability capability,
                         std::int64_t multiprocessors) {
  LoweringPolicy policy =
      policy_of(static_cast<const ForwardSpec&>(inference), capability, multiprocessors);
  policy.gradients = false;
  policy.end = inference.logits == KeptLogits::last ? ForwardEnd::last_logits : ForwardEnd::logits;
  if (inference.generation) {
    policy.past = 0;
    policy.new_tokens = inference.generation->tokens;
  }
  return policy;
}

}  // namespace memest
