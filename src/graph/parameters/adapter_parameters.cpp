#include "graph/parameters/adapter_parameters.hpp"

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

}  // namespace

Inventory with_adapter(const Inventory& inventory, const Adaptation& how) {
  return rewritten(inventory,
                   [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
                     add_stretch(result, inventory, how, steps);
                   });
}

}  // namespace memest
