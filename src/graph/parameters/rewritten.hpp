// An inventory written anew, stretch by stretch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "memest/spec/inventory.hpp"

namespace memest {

/// Writes the tensors in place of those of one stretch of a model.
using WriteStretch = std::function<void(InventoryBuilder&, const std::vector<PlacementStep>&)>;

/// `inventory` with `write`'s tensors in every stretch, in its order of placement; a run of layers
/// has `layers` of them where that is given.
Inventory rewritten(const Inventory& inventory, const WriteStretch& write,
                    std::optional<std::int64_t> layers = std::nullopt);
/// Adds the tensors of `step` as they are.
void add_as_they_are(InventoryBuilder& result, const Inventory& inventory,
                     const PlacementStep& step);

}  // namespace memest
