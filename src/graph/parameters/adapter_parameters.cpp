#include "graph/parameters/adapter_parameters.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/parameters/rewritten.hpp"
#include "memest/spec/inventory.hpp"

namespace memest {
namespace {

// peft's target_modules name modules: a 3-D Parameter of all experts is none (peft has
// target_parameters for it, which is not followed).
bool is_target(const LoraAdapter& adapter, const ParameterTensor& tensor) {
  return tensor.role == ParameterRole::matmul && tensor.shape.size() == 2 &&
         adapts(adapter, module_of(tensor.name));
}

/// Heads are torch.nn.Linear even where the layers' matrices are not.
void add_matrices(InventoryBuilder& result, const Adaptation& how, const ParameterTensor& target) {
  const std::string module(module_of(target.name));
  // lora_A is nn.Linear(in_features, r) whatever the layout of the weight it adapts
  // (LoraLayer.update_layer): rank 8 beside a [4096, 4096] projection is 2·8·4096 parameters.
  const bool in_out = how.stored_in_out && !module.ends_with("lm_head");
  const std::int64_t in = in_out ? target.shape.front() : target.shape.back();
  const std::int64_t out = in_out ? target.shape.back() : target.shape.front();
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    result.add(
        ParameterTensor{.name = module + name, .shape = std::move(shape), .count = target.count});
  };
  add(".lora_A.default.weight", {how.adapter.rank, in});
  add(".lora_B.default.weight", {out, how.adapter.rank});
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
    tensor.trainable = false;
    return tensor;
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
    if (!is_target(how.adapter, tensor)) {
      result.add(tensor);
      continue;
    }
    result.add(inside(tensor));
    // The bias belongs to the module that base_layer holds, so lora_A and lora_B come behind it.
    const bool more = i + 1 < steps.size() && !steps[i + 1].buffer;
    if (more && module_of(tensor_of(steps[i + 1]).name) == module_of(tensor.name)) {
      result.add(inside(tensor_of(steps[++i])));
    }
    add_matrices(result, how, tensor);
  }
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
  const LoraAdapter& adapter = how.adapter;
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

}  // namespace

Inventory with_parallel_adapter(const Inventory& inventory, const ParallelAdaptation& how) {
  return rewritten(inventory,
                   [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
                     add_wrapped(result, inventory, how, steps);
                   });
}

Inventory with_adapter(const Inventory& inventory, const Adaptation& how) {
  return rewritten(inventory,
                   [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
                     add_stretch(result, inventory, how, steps);
                   });
}

}  // namespace memest
