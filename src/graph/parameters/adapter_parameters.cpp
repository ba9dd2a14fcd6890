#include "graph/parameters/adapter_parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/parameters/rewritten.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

// peft's target_modules name modules: a 3-D Parameter of all experts is none (peft has
// target_parameters for it, which is not followed).
bool is_target(const Adapter& adapter, const ParameterTensor& tensor) {
  return tensor.role == ParameterRole::matmul && tensor.shape.size() == 2 &&
         adapts(adapter, module_of(tensor.name));
}

/// The parts of the joint module `module` that are adapted, and their width together.
struct AdaptedParts {
  std::int64_t count = 0;
  std::int64_t width = 0;
};
AdaptedParts adapted_parts(const Adaptation& how, std::string_view module) {
  AdaptedParts found;
  if (!how.joint || how.joint->module != module) return found;
  for (const JointTargets::Part& part : how.joint->parts) {
    if (!adapts(how.adapter, module) && !adapts(how.adapter, part.name)) continue;
    ++found.count;
    found.width += part.width;
  }
  return found;
}

bool is_target(const Adaptation& how, const ParameterTensor& tensor) {
  const bool of_parts =
      tensor.role == ParameterRole::matmul && adapted_parts(how, module_of(tensor.name)).count > 0;
  return of_parts || is_target(how.adapter, tensor);
}

/// Adds what the adapter trains beside `target`. Heads are torch.nn.Linear even where the layers'
/// matrices are not.
void add_trained(InventoryBuilder& result, const Adaptation& how, const ParameterTensor& target) {
  const Adapter& adapter = how.adapter;
  const std::string module(module_of(target.name));
  // lora_A is nn.Linear(in_features, r) whatever the layout of the weight it adapts
  // (LoraLayer.update_layer): rank 8 beside a [4096, 4096] projection is 2·8·4096 parameters.
  const bool in_out = how.stored_in_out && !module.ends_with("lm_head");
  const std::int64_t in = in_out ? target.shape.front() : target.shape.back();
  const std::int64_t out = in_out ? target.shape.back() : target.shape.front();
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    result.add(ParameterTensor{.name = module + name,
                               .shape = std::move(shape),
                               .count = target.count,
                               .trainable = target.trainable,
                               .unread = target.unread});
  };
  if (adapter.kind == AdapterKind::ia3) {
    const bool of_input = scales_input(adapter, module);
    add(".ia3_l.default",
        of_input ? std::vector{std::int64_t{1}, in} : std::vector{out, std::int64_t{1}});
    return;
  }
  if (adapter.kind == AdapterKind::vera) {
    add(".vera_lambda_b.default", {out});
    add(".vera_lambda_d.default", {adapter.rank});
    return;
  }
  if (const AdaptedParts parts = adapted_parts(how, module); parts.count > 0) {
    add(".lora_A", {checked_multiply(parts.count, adapter.rank), in});
    add(".lora_B", {parts.width, adapter.rank});
    return;
  }
  add(".lora_A.default.weight", {adapter.rank, in});
  add(".lora_B.default.weight", {out, adapter.rank});
  // DoraLinearVariant.init: one length for each row of the weight.
  if (adapter.kind == AdapterKind::dora) add(".lora_magnitude_vector.default.weight", {out});
}

/// peft keeps the original beside the copy that runs.
void add_whole(InventoryBuilder& result, const ParameterTensor& tensor) {
  const auto named = [&tensor](const char* inner) {
    ParameterTensor one = tensor;
    one.name.insert(one.name.rfind('.'), inner);
    return one;
  };
  ParameterTensor original = named(".original_module");
  // peft/utils/other.py, ModulesToSaveWrapper: modules_to_save[adapter] is a deepcopy; forward
  // calls it and never original_module, which stays on the device.
  original.active_numerator = 0;
  result.add(std::move(original));
  ParameterTensor copy = named(".modules_to_save.default");
  copy.trainable = copy.whole_module = true;
  result.add(std::move(copy));
}

/// peft's layer holds the module that it replaces.
ParameterTensor inside(ParameterTensor tensor) {
  tensor.name.insert(tensor.name.rfind('.'), ".base_layer");
  return tensor;
}

/// The tensors of one stretch of a model, those of its targets with their matrices.
void add_stretch(InventoryBuilder& result, const Inventory& inventory, const Adaptation& how,
                 const std::vector<PlacementStep>& steps) {
  const auto tensor_of = [&](const PlacementStep& step) {
    ParameterTensor tensor = inventory.parameters[step.row];
    tensor.count = step.count;
    tensor.trainable = tensor.unread = false;
    return tensor;
  };
  const auto target_of = [&](const PlacementStep& step) {
    ParameterTensor target = inventory.parameters[step.row];
    target.count = step.count;
    return target;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].buffer) {
      BufferTensor buffer = inventory.buffers[steps[i].row];
      buffer.count = steps[i].count;
      result.add(std::move(buffer));
      continue;
    }
    const ParameterTensor tensor = tensor_of(steps[i]);
    if (trains_whole(how.adapter, module_of(tensor.name))) {
      add_whole(result, tensor);
      continue;
    }
    if (!is_target(how, tensor)) {
      result.add(tensor);
      continue;
    }
    const ParameterTensor target = target_of(steps[i]);
    result.add(inside(tensor));
    // The bias belongs to the module that base_layer holds, so lora_A and lora_B come behind it.
    const bool more = i + 1 < steps.size() && !steps[i + 1].buffer;
    if (more && module_of(tensor_of(steps[i + 1]).name) == module_of(tensor.name)) {
      result.add(inside(tensor_of(steps[++i])));
    }
    add_trained(result, how, target);
  }
}

/// VeraModel._init_vera_A_vera_B: buffers as wide as the widest target, and as high as the highest.
void add_shared_matrices(Inventory& adapted, const Inventory& inventory, const Adaptation& how) {
  std::int64_t in = 0;
  std::int64_t out = 0;
  for (const ParameterTensor& tensor : inventory.parameters) {
    if (!is_target(how.adapter, tensor)) continue;
    const bool in_out = how.stored_in_out && !module_of(tensor.name).ends_with("lm_head");
    in = std::max(in, in_out ? tensor.shape.front() : tensor.shape.back());
    out = std::max(out, in_out ? tensor.shape.back() : tensor.shape.front());
  }
  PlacementRun run;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    run.steps.push_back({true, adapted.buffers.size(), 1});
    adapted.buffers.push_back(
        {.name = name, .shape = std::move(shape), .dtype = how.adapter.dtype, .of_adapter = true});
  };
  add("vera_A.default", {how.adapter.rank, in});
  add("vera_B.default", {out, how.adapter.rank});
  if (!adapted.placement.empty()) adapted.placement.push_back(std::move(run));
}

/// Whether a layer's input lies in parts over the tensor-parallel ranks (RowParallelLinear).
bool is_by_rows(std::string_view module) {
  return is_named(module, "linear_proj") || is_named(module, "linear_fc2");
}

/// ParallelLinearAdapter's two matrices as this rank has them: beside a column-parallel layer both
/// have rows of theirs, beside a row-parallel one the first has columns. A rank's experts have one
/// adapter together, whole (share_expert_adapters).
void add_parallel_matrices(InventoryBuilder& result, const ParallelAdaptation& how,
                           const ParameterTensor& target) {
  const Adapter& adapter = how.adapter;
  const std::string module(module_of(target.name));
  const bool of_experts = module.find(".experts.") != std::string::npos;
  const std::int64_t ranks = of_experts ? 1 : how.ranks;
  const bool by_rows = is_by_rows(module);
  const std::int64_t out = target.shape.front();
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    result.add(ParameterTensor{.name = module + name,
                               .shape = std::move(shape),
                               .count = of_experts ? 1 : target.count,
                               .expert_parallel = target.expert_parallel});
  };
  add(".adapter.linear_in.weight",
      {by_rows ? adapter.rank : adapter.rank / ranks, target.shape.back()});
  add(".adapter.linear_out.weight", {by_rows ? out / ranks : out, adapter.rank});
}

/// The tensors of one stretch of Megatron's model, whose layers are wrapped.
void add_wrapped(InventoryBuilder& result, const Inventory& inventory,
                 const ParallelAdaptation& how, const std::vector<PlacementStep>& steps) {
  std::optional<ParameterTensor> target;  // its layer's tensors are written
  const auto end_layer = [&] {
    if (target) add_parallel_matrices(result, how, *target);
    target.reset();
  };
  for (const PlacementStep& step : steps) {
    if (step.buffer) {
      add_as_they_are(result, inventory, step);
      continue;
    }
    ParameterTensor tensor = inventory.parameters[step.row];
    tensor.count = step.count;
    tensor.trainable = false;
    if (target && module_of(target->name) != module_of(tensor.name)) end_layer();
    if (is_target(how.adapter, tensor)) target = tensor;
    result.add(std::move(tensor));
  }
  end_layer();
}

/// PromptEmbedding, PromptEncoder (encoder_reparameterization_type MLP).
std::vector<ParameterTensor> trained_of_prompt(const Adapter& prompt, std::int64_t hidden_size) {
  std::vector<ParameterTensor> tensors;
  const auto add = [&tensors](const char* name, std::vector<std::int64_t> shape) {
    const ParameterRole role = shape.size() == 1 ? ParameterRole::bias : ParameterRole::other;
    tensors.push_back({.name = std::string("prompt_encoder.default.") + name,
                       .shape = std::move(shape),
                       .role = role});
  };
  add("embedding.weight", {prompt.virtual_tokens, hidden_size});
  if (prompt.kind != AdapterKind::p_tuning) return tensors;
  const std::int64_t inner =
      prompt.encoder_hidden_size > 0 ? prompt.encoder_hidden_size : hidden_size;
  const auto linear = [&add](const char* weight, const char* bias, std::int64_t out,
                             std::int64_t in) {
    add(weight, {out, in});
    add(bias, {out});
  };
  linear("mlp_head.0.weight", "mlp_head.0.bias", inner, hidden_size);
  linear("mlp_head.2.weight", "mlp_head.2.bias", inner, inner);
  linear("mlp_head.4.weight", "mlp_head.4.bias", hidden_size, inner);
  return tensors;
}

}  // namespace

Inventory with_prompt(const Inventory& inventory, const Adapter& prompt, std::int64_t hidden_size) {
  Inventory result = with_adapter(inventory, {prompt});
  PlacementRun run;
  for (ParameterTensor& tensor : trained_of_prompt(prompt, hidden_size)) {
    run.steps.push_back({false, result.parameters.size(), 1});
    result.parameters.push_back(std::move(tensor));
  }
  if (!result.placement.empty()) result.placement.push_back(std::move(run));
  return result;
}

Inventory with_parallel_adapter(const Inventory& inventory, const ParallelAdaptation& how) {
  return rewritten(inventory,
                   [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
                     add_wrapped(result, inventory, how, steps);
                   });
}

Inventory with_adapter(const Inventory& inventory, const Adaptation& how) {
  Inventory adapted =
      rewritten(inventory, [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
        add_stretch(result, inventory, how, steps);
      });
  if (how.adapter.kind == AdapterKind::vera) add_shared_matrices(adapted, inventory, how);
  return adapted;
}

}  // namespace memest
