#include "memest/spec/recompute/checkpoint_plan.hpp"

#include <algorithm>
#include <iterator>
#include <variant>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// The checkpoint plan of one policy, whatever the framework.
struct PlanOf {
  std::int64_t layers;

  CheckpointPlan operator()(const NoRecompute&) const { return {}; }
  CheckpointPlan operator()(const SelectiveRecompute& parts) const { return {.parts = parts}; }
  CheckpointPlan operator()(const FullRecompute& full) const {
    // Megatron's recompute_method: "block" checkpoints each of the first recompute_num_layers
    // layers, "uniform" chunks of so many (transformer_block.py, _checkpointed_forward).
    if (full.method == RecomputeMethod::block) return {.length = 1, .most = full.layers};
    return {.length = full.layers};
  }
  CheckpointPlan operator()(const EveryRecompute& every) const { return {.length = every.every}; }
  CheckpointPlan operator()(const SqrtRecompute&) const {
    std::int64_t checkpoints = 1;  // ⌈√L⌉
    while (checkpoints * checkpoints < layers) ++checkpoints;
    return {.length = (layers + checkpoints - 1) / checkpoints};
  }
  CheckpointPlan operator()(const ChosenRecompute& chosen) const {
    if (chosen.layers.empty()) return {};
    return {.length = 1, .chosen = chosen.layers};
  }
  CheckpointPlan operator()(const BudgetRecompute&) const {
    unreachable("a budget of recompute that no plan of checkpoints has taken the place of");
  }
};

/// A checkpoint holds a layer (torchtitan/distributed/activation_checkpoint.py).
CheckpointPlan plan_by_layers(const Recompute& recompute) {
  if (std::holds_alternative<NoRecompute>(recompute)) return {};
  CheckpointPlan plan{.length = 1};
  // selective_ac_option "2": _apply_layer_sac wraps every second layer whole; "op" is a policy
  // within each layer (_apply_op_sac).
  if (const auto* every = std::get_if<EveryRecompute>(&recompute)) plan.every = every->every;
  plan.selects = std::holds_alternative<SelectiveRecompute>(recompute);
  return plan;
}

constexpr SelectiveRecompute kPredictionsAlone{.attention_core = false, .predictions = true};

/// Megatron's --distribute-saved-activations.
bool distributes(const Recompute& recompute) {
  const auto* full = std::get_if<FullRecompute>(&recompute);
  return full != nullptr && full->distribute;
}

}  // namespace

bool CheckpointPlan::recomputes(std::int64_t layer) const {
  if (length == 0 || (most > 0 && layer >= most)) return false;
  if (!chosen.empty()) return std::binary_search(chosen.begin(), chosen.end(), layer);
  // _apply_layer_sac counts from 1: with every 2 the layers 1, 3, 5 ... from 0 are checkpointed.
  return (layer + 1) % every == 0;
}

bool CheckpointPlan::ends_checkpoint(std::int64_t layer, std::int64_t layers) const {
  return recomputes(layer) && ((layer + 1) % length == 0 || layer + 1 == layers);
}

std::int64_t CheckpointPlan::recomputed_of(std::int64_t layers) const {
  if (length == 0) return 0;
  if (!chosen.empty()) {
    return std::distance(chosen.begin(), std::lower_bound(chosen.begin(), chosen.end(), layers));
  }
  return (most > 0 ? std::min(most, layers) : layers) / every;
}

std::int64_t CheckpointPlan::checkpoints_of(std::int64_t layers) const {
  return length == 0 ? 0 : (recomputed_of(layers) + length - 1) / length;
}

CheckpointPlan checkpoint_plan_of(const Recompute& recompute, CheckpointRule rule,
                                  std::int64_t layers) {
  return rule == CheckpointRule::layers ? plan_by_layers(recompute)
                                        : std::visit(PlanOf{layers}, recompute);
}

CheckpointPlan checkpoint_plan_of(const TrainingSpec& training, std::int64_t layers) {
  const Implementation& implementation = training.implementation;
  const CheckpointRule rule = row_of(implementation.framework).checkpoints;
  const bool whole_layers = row_of(implementation.framework).keeps_contractions &&
                            std::holds_alternative<SelectiveRecompute>(training.recompute);
  CheckpointPlan plan = whole_layers ? CheckpointPlan{.length = 1, .selects = true}
                                     : checkpoint_plan_of(training.recompute, rule, layers);
  const bool compiled = implementation.compile != CompileScope::off;
  switch (rule) {
    case CheckpointRule::torch:
      // torch/utils/checkpoint.py, PyTorch 2.11: _StopRecomputationError ends a second forward,
      // which CheckpointFunction.backward runs whole, as a compiled layer is run.
      plan.holds_answer = training.loop_reenters || is_reentrant(training.recompute);
      plan.to_end = compiled;
      plan.stops_early = !plan.holds_answer && !compiled;
      break;
    case CheckpointRule::layers:
      // torchtitan compiles a layer with its checkpoint, which then runs what the backward reads.
      plan.to_end = !compiled;
      plan.stops_early = compiled;
      break;
    case CheckpointRule::reentrant:
      plan.holds_answer = true;
      plan.saves_arguments = true;
      break;
    case CheckpointRule::megatron:  // core/tensor_parallel/random.py, CheckpointFunction
      plan.holds_answer = true;
      plan.saves_arguments = true;
      plan.distributes = distributes(training.recompute);
      // MultiTokenPredictionLayer._checkpointed_forward: by itself under "uniform", not under
      // "block".
      if (plan.length > 0 && plan.most == 0) plan.parts = kPredictionsAlone;
      break;
    case CheckpointRule::formula:
      break;
  }
  return plan;
}

bool is_reentrant(const Recompute& recompute) {
  const auto* full = std::get_if<FullRecompute>(&recompute);
  return full != nullptr && full->reentrant;
}

bool leaves_recompute(const Implementation& implementation, std::int64_t ranks,
                      const Recompute& recompute) {
  if (!row_of(implementation.framework).recomputes_over_ranks) return true;
  return std::holds_alternative<NoRecompute>(recompute) == (ranks == 1);
}

bool asks_embeddings_for_gradient(const TrainingSpec& training) {
  return !std::holds_alternative<NoRecompute>(training.recompute) &&
         row_of(training.implementation.framework).embeddings_want_gradient;
}

}  // namespace memest
