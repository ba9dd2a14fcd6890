#include "graph/parameters/rewritten.hpp"

#include <cstddef>
#include <utility>

namespace memest {

Inventory rewritten(const Inventory& inventory, const WriteStretch& write) {
  InventoryBuilder result;
  for (const PlacementRun& run : inventory.placement) {
    if (run.layers) {
      result.repeat_layer(run.repeat);
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
