#include "memory/states/model_states.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/spec/dtype.hpp"
#include "memest/spec/framework.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/quantized/code_terms.hpp"
#include "memory/states/expert_shares.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/states/scaled_states.hpp"
#include "memory/states/state_sizes.hpp"

namespace memest {
namespace {

// torch.nn.utils.clip_grad_norm_: the foreach norm keeps one fp32 partial sum a chunk of 65,536
// elements, for every tensor as many as the largest needs.
constexpr std::int64_t kNormChunk = 65536;
constexpr std::int64_t kNormBytes = 4;

/// On the device.
std::int64_t state_bytes(const OptimizerState& state, const ParameterTensor& tensor,
                         std::int64_t bytes) {
  const std::vector<std::int64_t> tensors = tensors_of(state, tensor, bytes);
  std::int64_t total = 0;
  for (std::size_t i = managed_tensors(state, tensor); i < tensors.size(); ++i) {
    total = checked_add(total, tensors[i]);
  }
  return total;
}

bool is_linear(const OptimizerState& state) {
  const bool each =
      state.shape == StateShape::like_parameter || state.shape == StateShape::remainders;
  return each && !state.matrices_only && !state.vectors_only && !state.on_host;
}

DType type_of(const OptimizerState& state, const Recipe& recipe) {
  return state.dtype.value_or(recipe.states);
}

/// Bytes an element of a state that is like the parameter.
std::int64_t element_bytes(const OptimizerState& state, const Recipe& recipe) {
  return state.shape == StateShape::remainders ? kRemainderBytes : size_of(type_of(state, recipe));
}

DType type_of(const OptimizerState& state, const ParameterTensor& tensor, const Recipe& recipe) {
  return state.dtype.value_or(tensor.whole_module ? recipe.weights : recipe.states);
}

/// Elements of the modules that are trained in full beside adapters.
std::int64_t whole_elements(const Inventory& inventory) {
  std::int64_t result = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!tensor.whole_module) continue;
    result = checked_add(result, checked_multiply(elements_of(tensor), tensor.count));
  }
  return result;
}

/// Bytes of something like all that is trained: `type` but for whole modules, which keep theirs.
Expr trained_bytes(DType type, const Recipe& recipe, const Inventory& inventory) {
  Expr bytes = size_of(type) * trained_parameters(inventory);
  const std::int64_t whole = whole_elements(inventory);
  if (whole > 0) bytes += Expr((size_of(recipe.weights) - size_of(type)) * whole);
  return bytes;
}

/// A state that is counted tensor by tensor.
LedgerTerm counted_state(const Job& job, const Inventory& inventory, const OptimizerState& state) {
  const DType type = type_of(state, job.training->recipe);
  std::int64_t bytes = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!takes_part(state, tensor)) continue;
    const std::int64_t size = size_of(type_of(state, tensor, job.training->recipe));
    bytes = checked_add(bytes, checked_multiply(tensor.count, state_bytes(state, tensor, size)));
  }
  // fully_shard leaves the optimizer the parameters, one shard of each: a scalar is every rank's.
  const bool whole = state.shape == StateShape::scalar && shards_by<RowShards>(job);
  return {"optimizer states: " + state.name, TermGroup::optimizer,
          whole ? Expr(bytes) : share_of_stage(job, ZeroStage::optimizer, bytes),
          job.training->optimizer.source, rule_of_state(state, type)};
}

/// The states of the optimizer and of its implementation.
std::vector<OptimizerState> all_states(const TrainingSpec& training) {
  std::vector<OptimizerState> result = training.optimizer.states;
  const std::vector<OptimizerState>& extra = implementation_of(training).extra_states;
  result.insert(result.end(), extra.begin(), extra.end());
  return result;
}

/// A table a state whose codes any parameter has.
std::vector<LedgerTerm> map_terms(const Job& job, const Inventory& inventory) {
  std::int64_t maps = 0;
  for (const OptimizerState& state : job.training->optimizer.states) {
    const auto coded = [&](const ParameterTensor& tensor) { return is_coded(state, tensor); };
    if (std::ranges::any_of(inventory.parameters, coded)) ++maps;
  }
  if (maps == 0) return {};
  return {{"values of the optimizer states' codes", TermGroup::optimizer, Expr(maps * kMapOfCodes),
           "bitsandbytes 0.50, optim/optimizer.py: name2qmap", ""}};
}

/// max over i of 2·s_i + s_(i−1), in elements: a loop's temporaries hold the previous parameter's
/// quotient while it makes the next root and quotient. Tensors of equal count repeat as one layer.
std::int64_t running_pair_elements(const Inventory& inventory) {
  const auto& tensors = inventory.parameters;
  std::int64_t most = 0;
  std::size_t layer_begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0 && tensors[i].count != tensors[i - 1].count) layer_begin = i;
    const std::int64_t previous = i > 0 ? elements_of(tensors[i - 1]) : 0;
    const bool layer_ends = i + 1 == tensors.size() || tensors[i + 1].count != tensors[i].count;
    most = std::max(
        most, checked_add(checked_multiply(elements_of(tensors[i]), std::int64_t{2}), previous));
    if (layer_ends && tensors[i].count > 1) {
      const std::int64_t first = elements_of(tensors[layer_begin]);
      most = std::max(
          most, checked_add(checked_multiply(first, std::int64_t{2}), elements_of(tensors[i])));
    }
  }
  return most;
}

}  // namespace

std::int64_t elements_of(const ParameterTensor& tensor) {
  std::int64_t result = 1;
  for (const std::int64_t size : tensor.shape) result = checked_multiply(result, size);
  return result;
}

std::int64_t elements_of(const Inventory& inventory) {
  std::int64_t result = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    result = checked_add(result, checked_multiply(elements_of(tensor), tensor.count));
  }
  return result;
}

const ImplementationTransient& implementation_of(const TrainingSpec& training) {
  const auto& all = training.optimizer.implementations;
  const auto found = std::find_if(all.begin(), all.end(), [&](const ImplementationTransient& one) {
    return one.implementation == training.optimizer_implementation;
  });
  expect(found != all.end(), "a job's optimizer has the implementation that the job names");
  return *found;
}

std::vector<std::int64_t> state_tensors(const OptimizerState& state, const ParameterTensor& tensor,
                                        const Recipe& recipe) {
  if (!takes_part(state, tensor)) return {};
  return tensors_of(state, tensor, size_of(type_of(state, tensor, recipe)));
}

std::int64_t partial_norm_bytes(std::int64_t tensors, std::int64_t largest) {
  return checked_multiply(checked_multiply(kNormBytes, round_up_quotient(largest, kNormChunk)),
                          tensors);
}

ZeroStage zero_stage_of(const Job& job) { return zero_stage_of(sharding_of(job)); }

Expr share_of_stage(const Job& job, ZeroStage stage, const Expr& elements) {
  const bool divided = zero_stage_of(job) >= stage && job.parallelism.shard_ranks() > 1;
  return divided ? unit_share(job, elements) : elements;
}

Expr unit_share(const Job& job, const Expr& elements) {
  const Parallelism& parallelism = job.parallelism;
  const Sharding sharding = sharding_of(job);
  const GatheredUnits* units = units_of(sharding);
  const std::int64_t replicas = units != nullptr ? units->replicas : 1;
  const Expr whole = replicas == 1 ? elements : elements * Expr(replicas);
  const Expr share = parallelism.data == 1 ? whole : whole / Expr(Symbol::data);
  return parallelism.context == 1 ? share : share / Expr(Symbol::context);
}

Expr trained_parameters(const Inventory& inventory) {
  const bool all = std::all_of(inventory.parameters.begin(), inventory.parameters.end(),
                               [](const ParameterTensor& tensor) { return tensor.trainable; });
  return all ? Symbol::parameters : Symbol::trainable;
}

DType stepped_type(const Recipe& recipe) {
  return recipe.master.value_or(recipe.trained.value_or(recipe.weights));
}

DType stepped_type(const Recipe& recipe, const ParameterTensor& tensor) {
  return tensor.whole_module ? recipe.weights : stepped_type(recipe);
}

namespace {

/// The copies of weights that Transformer Engine multiplies, in 8 or 4 bits.
LedgerTerm te_copies_term(const Job& job, const Inventory& inventory) {
  const TeLinears& linears = *job.training->te_linears;
  const std::int64_t bytes = te_weight_bytes(te_linear_elements(inventory), linears.recipe,
                                             te_capability(job.hardware.gpu));
  return {std::string("quantized weights (") + std::string(name_of(linears.recipe)) + ")",
          TermGroup::weights, Expr(bytes),
          "Transformer Engine 2.11, module/base.py: get_weight_workspace", ""};
}

}  // namespace

std::vector<LedgerTerm> weight_terms(const Job& job, const Inventory& inventory) {
  const Recipe& recipe = job.forward()->recipe;
  if (job.parallelism.offload.parameters) return {};
  Expr weights = size_of(recipe.weights) * Expr(Symbol::parameters);
  if (recipe.trained) weights -= size_of(recipe.weights) * Expr(Symbol::trainable);
  if (job.model.quantized) weights -= Expr(bytes_without_codes(job, inventory));
  if (job.training && job.training->te_linears && job.training->te_linears->param_gather) {
    weights -= Expr(checked_multiply(te_linear_elements(inventory), size_of(recipe.weights)));
  }
  std::vector<LedgerTerm> terms{
      {std::string("weights (") + std::string(name_of(recipe.weights)) + ")", TermGroup::weights,
       share_with_experts(job, ZeroStage::optimizer_gradients_weights, weights,
                          size_of(recipe.weights) * Expr(Symbol::expert_parameters)),
       recipe.source, ""}};
  if (recipe.trained) {
    terms.push_back({std::string("adapters (") + std::string(name_of(*recipe.trained)) + ")",
                     TermGroup::weights, trained_bytes(*recipe.trained, recipe, inventory),
                     job.model.adapter->recast
                         ? "trl 1.16, sft_trainer.py: what is trained beside codes is cast to bf16"
                         : "peft: autocast_adapter_dtype keeps adapters of 16-bit models in fp32",
                     ""});
  }
  if (job.model.quantized) terms.push_back(code_term(job, inventory));
  if (job.training && job.training->te_linears) terms.push_back(te_copies_term(job, inventory));
  if (recipe.fp8_weight_copies > 0) {
    terms.push_back({"fp8 copies of the matmul weights", TermGroup::weights,
                     Expr(recipe.fp8_weight_copies) * Expr(Symbol::matmul_parameters),
                     recipe.source, ""});
  }
  return terms;
}

bool gradients_on_host(const Job& job) {
  return job.parallelism.offload.optimizer && zero_stage_of(job) >= ZeroStage::optimizer_gradients;
}

LedgerTerm gradient_term(const Job& job, const Inventory& inventory) {
  const Recipe& recipe = job.training->recipe;
  return {std::string("gradients (") + std::string(name_of(recipe.gradients)) + ")",
          TermGroup::gradients,
          share_with_experts(job, ZeroStage::optimizer_gradients,
                             trained_bytes(recipe.gradients, recipe, inventory),
                             size_of(recipe.gradients) * Expr(Symbol::expert_parameters)),
          recipe.source, ""};
}

std::vector<LedgerTerm> master_terms(const Job& job, const Inventory& inventory) {
  const Recipe& recipe = job.training->recipe;
  if (!recipe.master || job.parallelism.offload.optimizer) return {};
  return {{std::string("master weights (") + std::string(name_of(*recipe.master)) + ")",
           TermGroup::optimizer,
           optimizer_share(job, size_of(*recipe.master),
                           size_of(*recipe.master) * trained_parameters(inventory)),
           recipe.source, ""}};
}

bool makes_states_in_step(const TrainingSpec& training) {
  return training.steps == 1 && !training.optimizer.states_in_constructor;
}

std::vector<LedgerTerm> state_terms(const Job& job, const Inventory& inventory) {
  if (job.parallelism.offload.optimizer) return {};
  const TrainingSpec& training = *job.training;
  std::vector<LedgerTerm> terms;
  std::string names;
  Expr bytes;  // of all states that are like the parameter
  std::int64_t each = 0;
  for (const OptimizerState& state : all_states(training)) {
    if (!is_linear(state)) {
      LedgerTerm counted = counted_state(job, inventory, state);
      if (!state.on_host || !(counted.formula == Expr())) terms.push_back(std::move(counted));
      continue;
    }
    const std::int64_t element = element_bytes(state, training.recipe);
    bytes += state.dtype || state.shape == StateShape::remainders
                 ? element * trained_parameters(inventory)
                 : trained_bytes(training.recipe.states, training.recipe, inventory);
    each += element;
    names += (names.empty() ? "" : ", ") + state.name;
  }
  if (!names.empty()) {
    terms.push_back({"optimizer states: " + names, TermGroup::optimizer,
                     optimizer_share(job, each, bytes), training.optimizer.source, ""});
  }
  for (LedgerTerm& term : scale_terms(job, inventory)) terms.push_back(std::move(term));
  for (LedgerTerm& term : map_terms(job, inventory)) terms.push_back(std::move(term));
  return terms;
}

bool gradients_persist(const Job& job) {
  const TrainingSpec& training = *job.training;
  const Sharding sharding = sharding_of(job);
  const auto* ddp = std::get_if<ReplicasOfDdp>(&sharding);
  const auto* zero = std::get_if<DeepSpeedZero>(&sharding);
  // zero_grad frees `.grad` alone: DDP's bucket views, Megatron's main_grad, BF16_Optimizer's sums
  // and stage 3's grad_partitions_flat_buffer are memory of their own.
  const bool in_buckets = ddp != nullptr && ddp->buckets.gradient_as_bucket_view;
  return training.gradient_accumulation > 1 || training.zero_grad == ZeroGrad::zeros ||
         adds_to_gradient_buffer(training.implementation) || in_buckets ||
         sums_whole_gradients(job) || (zero != nullptr && zero->shards_weights());
}

std::vector<LedgerTerm> buffer_terms(const Inventory& inventory) {
  const Bytes bytes = buffer_bytes(inventory);
  if (bytes == Bytes()) return {};
  return {{"buffers", TermGroup::buffers, Expr(bytes.value()), "tables and statistics of the model",
           ""}};
}

std::vector<LedgerTerm> average_terms(const Job& job, const Inventory& inventory) {
  if (!job.training || !job.training->averages_weights) return {};
  const DType type = job.training->recipe.weights;
  return {{std::string("moving average of the weights (") + std::string(name_of(type)) + ")",
           TermGroup::weights,
           size_of(type) * Expr(Symbol::parameters) + Expr(buffer_bytes(inventory).value()),
           "torch.optim.swa_utils.AveragedModel copies the model, its buffers too", ""}};
}

std::vector<LedgerTerm> step_terms(const Job& job, const Inventory& inventory) {
  const TrainingSpec& training = *job.training;
  const Recipe& recipe = training.recipe;
  std::vector<LedgerTerm> terms;
  const auto add = [&](std::string name, TermGroup group, const Expr& bytes, std::string source) {
    terms.push_back({std::move(name), group, share_of_stage(job, ZeroStage::optimizer, bytes),
                     std::move(source), ""});
  };
  const bool widened = recipe.master && size_of(recipe.gradients) < size_of(*recipe.master);
  if (recipe.step_gradients || widened) {
    const DType type = recipe.step_gradients.value_or(stepped_type(recipe));
    terms.push_back(
        {std::string(name_of(type)) + " copies of the gradients", TermGroup::optimizer,
         optimizer_share(job, size_of(type), size_of(type) * trained_parameters(inventory)),
         "the optimizer steps " + std::string(name_of(type)) +
             " weights with gradients of that type (" + recipe.source + ")",
         ""});
  }
  const std::string name(name_of(training.optimizer_implementation));
  const StepTransient& transient = implementation_of(training).transient;
  const DType type = transient.dtype.value_or(stepped_type(recipe));
  const std::int64_t bytes = size_of(type);
  if (transient.whole_copies > 0) {
    terms.push_back({"temporaries of the " + name + " step", TermGroup::optimizer,
                     larger_share(job, inventory, transient.whole_copies * bytes,
                                  transient.whole_copies * trained_bytes(type, recipe, inventory)),
                     training.optimizer.source, ""});
  }
  if (transient.largest_copies > 0) {
    add("temporaries of the largest parameter's step", TermGroup::optimizer,
        transient.largest_copies * bytes * Expr(Symbol::largest_parameter),
        training.optimizer.source);
  }
  if (transient.running_pair) {
    add("temporaries of the for-loop step", TermGroup::optimizer,
        checked_multiply(bytes, running_pair_elements(inventory)), training.optimizer.source);
    terms.back().rule = "max over parameters i of 2·s_i + s_(i−1), in bytes";
  }
  for (LedgerTerm& term : widening_terms(job, inventory)) terms.push_back(std::move(term));
  return terms;
}

LedgerTerm clip_term(const Inventory& inventory) {
  std::int64_t largest = 0;
  std::int64_t tensors = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!tensor.trainable) continue;
    largest = std::max(largest, elements_of(tensor));
    tensors = checked_add(tensors, tensor.count);
  }
  return {"partial sums of the gradient norm", TermGroup::gradients,
          Expr(partial_norm_bytes(tensors, largest)),
          "PyTorch 2.11, clip_grad_norm_: the foreach norm keeps n · ⌈Φ1/65536⌉ fp32 partial sums",
          "4 B · n · ⌈Φ1/65536⌉"};
}

}  // namespace memest
