#include "graph/parameters/shared_parameters.hpp"

#include <vector>

#include "graph/parameters/rewritten.hpp"

namespace memest {

Inventory with_shared_layers(const Inventory& inventory, const SharedLayers& shared) {
  const auto write = [&](InventoryBuilder& result, const std::vector<PlacementStep>& steps) {
    for (const PlacementStep& step : steps) add_as_they_are(result, inventory, step);
  };
  return rewritten(inventory, write, shared.distinct);
}

}  // namespace memest
