#include "graph/parameters/rewritten.hpp"

#include <cstddef>
#include <utility>

namespace memest {

void add_as_they_are(InventoryBuilder& result, const Inventory& inventory,
                     const PlacementStep& step) {
  if (step.buffer) {
    BufferTensor buffer = inventory.buffers[step.row];
    buffer.count = step.count;
    result.add(std::move(buffer));
  } else {
    ParameterTensor tensor = inventory.parameters[step.row];
    tensor.count = step.count;
    result.add(std::move(tensor));
  }
}

Inventory rewritten(const Inventory& inventory, const WriteStretch& write,
                    std::optional<std::int64_t> layers) {
  InventoryBuilder result;
  for (const PlacementRun& run : inventory.placement) {
    if (run.layers) {
      result.repeat_layer(layers.value_or(run.repeat));
    } else {
      result.repeat(run.repeat);
    }
    write(result, run.steps);
  }
  if (inventory.placement.empty()) {
    std::vector<PlacementStep> steps;
    for (std::size_t i = 0; i < inventory.parameters.size(); ++i) {
      steps.push_back({false, i, inventory.parameters[i].count});
    }
    for (std::size_t i = 0; i < inventory.buffers.size(); ++i) {
      steps.push_back({true, i, inventory.buffers[i].count});
    }
    write(result, steps);
  }
  return std::move(result).take();
}

}  // namespace memest
