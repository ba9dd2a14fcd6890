#include "reader/job/read_optimizer.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/reader/catalog.hpp"
#include "memest/spec/framework.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// PyTorch's own; in the Trainer (TrainingArguments.optim), in train.py (configure_optimizers)
/// in Megatron beside Transformer Engine or Apex (their FusedAdam) and in nanotron AdamW is fused.
OptimizerImplementation default_implementation(const TrainingSpec& spec) {
  const bool fused = row_of(spec.implementation.loop).fused_adamw ||
                     row_of(spec.implementation.framework).fused_adamw ||
                     spec.implementation.layers != LayerSpec::local;
  return fused && spec.optimizer.rule == OptimizerRule::adamw
             ? OptimizerImplementation::fused
             : spec.optimizer.implementations.front().implementation;
}

/// transformers' own class, a loop over parameters whatever PyTorch's would be.
bool has_own_adafactor(const TrainingSpec& spec) {
  return row_of(spec.implementation.loop).own_adafactor &&
         spec.optimizer.rule == OptimizerRule::adafactor;
}

void read_implementation_of(const Value& written, TrainingSpec& spec, Diagnostics& diagnostics) {
  if (has_own_adafactor(spec)) return;
  std::vector<std::string> words;
  for (const ImplementationTransient& candidate : spec.optimizer.implementations) {
    words.emplace_back(name_of(candidate.implementation));
    if (words.back() != written.text) continue;
    spec.optimizer_implementation = candidate.implementation;
    return;
  }
  diagnostics.push_back(error_at(
      written.span, quote(spec.optimizer.name) + " has no implementation " + quote(written.text),
      "it has " + joined(words)));
}

constexpr std::string_view kMainParams = "main_params";
constexpr std::array kTypeKeys = {std::string_view("exp_avg"), std::string_view("exp_avg_sq"),
                                  kMainParams};
constexpr std::array kStateTypes = {DType::fp32, DType::bf16, DType::fp16};

/// fp32 where nothing is written.
DType type_of_word(const Value* written) {
  const std::string word = as_text(written).value_or("fp32");
  const auto* const found =
      std::ranges::find_if(kStateTypes, [&](DType type) { return name_of(type) == word; });
  return found == kStateTypes.end() ? DType::fp32 : *found;
}

/// FusedAdam keeps no more than the lower 16 bits of what a bf16 parameter is the upper half of
/// (store_param_remainders), unless it is told to keep all of it.
OptimizerState main_parameters(const Value* written, DType weights) {
  OptimizerState main;
  main.name = "master_param";
  main.main = true;
  const bool remainders = written == nullptr || as_text(written) == "remainders";
  if (remainders && weights == DType::bf16) {
    main.shape = StateShape::remainders;
    return main;
  }
  main.dtype = type_of_word(written);
  main.scaled = *main.dtype != DType::fp32;
  return main;
}

/// use_precision_aware_optimizer_no_fp8_or_ds_fp8 is false: main parameters in fp32 stay Megatron's
/// beside weights that it casts to 8 bits itself; delayed scaling is Adam's own.
bool leaves_main_parameters(const OptimizerState& main, const TrainingSpec& spec) {
  const bool wide = main.shape == StateShape::remainders || main.dtype == DType::fp32;
  return wide && spec.te_linears && spec.te_linears->recipe != TeRecipe::delayed;
}

/// megatron-core 0.16.1, OptimizerConfig.use_precision_aware_optimizer: Transformer Engine's
/// FusedAdam holds the main parameters, and reads the main gradients where they lie
/// (decoupled_grad).
void keep_in_types(const Value& written, TrainingSpec& spec) {
  spec.optimizer.typed = true;
  for (OptimizerState& state : spec.optimizer.states) {
    state.dtype = type_of_word(written.find(state.name));
    state.scaled = *state.dtype != DType::fp32;
  }
  spec.optimizer.source =
      "Transformer Engine 2.11, optimizers/fused_adam.py, as megatron-core 0.16.1's "
      "precision-aware optimizer has it";
  for (ImplementationTransient& row : spec.optimizer.implementations) row.extra_states.clear();
  OptimizerState main = main_parameters(written.find(kMainParams), spec.recipe.weights);
  if (leaves_main_parameters(main, spec)) return;
  spec.optimizer.states.push_back(std::move(main));
  spec.recipe.master.reset();
  spec.recipe.step_gradients.reset();
}

}  // namespace

void read_optimizer_types(const Value& training, TrainingSpec& spec, Diagnostics& diagnostics) {
  const Value* optimizer = training.find("optimizer");
  if (optimizer == nullptr || optimizer->kind != ValueKind::mapping) return;
  const Value& written = *optimizer;
  const auto* const first = std::ranges::find_if(
      kTypeKeys, [&](std::string_view key) { return written.find(key) != nullptr; });
  if (first == kTypeKeys.end()) return;
  if (spec.optimizer.rule == OptimizerRule::adamw) return keep_in_types(written, spec);
  diagnostics.push_back(
      error_at(written.find(*first)->span,
               quote(spec.optimizer.name) + " keeps its states in the types of its precision",
               "leave " + quote(std::string(*first)) + " out, or set 'name' to adamw"));
}

void read_optimizer(const Value& training, TrainingSpec& spec, Diagnostics& diagnostics) {
  const Value* written = training.find("optimizer");
  const bool is_map = written != nullptr && written->kind == ValueKind::mapping;
  const Value* name = is_map ? written->find("name") : written;
  Checked<Optimizer> optimizer = find_optimizer(as_text(name).value_or("adamw"));
  if (!optimizer.ok()) return;
  spec.optimizer = std::move(optimizer).value();
  adapt_optimizer_to_loop(spec);
  if (spec.optimizer.implementations.empty()) return;
  spec.optimizer_implementation = default_implementation(spec);
  if (!is_map) return;
  spec.steps_in_backward = as_flag(written->find("in_backward")).value_or(false);
  if (const Value* implementation = written->find("implementation")) {
    read_implementation_of(*implementation, spec, diagnostics);
  }
}

}  // namespace memest
