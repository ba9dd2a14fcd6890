// An inventory written anew, stretch by stretch.
#pragma once

#include <functional>
#include <vector>

#include "memest/spec/inventory.hpp"

namespace memest {

/// Writes the tensors in place of those of one stretch of a model.
using WriteStretch = std::function<void(InventoryBuilder&, const std::vector<PlacementStep>&)>;

/// `inventory` with `write`'s tensors in every stretch, in its order of placement.
Inventory rewritten(const Inventory& inventory, const WriteStretch& write);

}  // namespace memest
