// Layers that use another's weights.
#pragma once

#include "memest/spec/compression/shared_layers.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// `inventory` with the tensors of those layers alone that have weights of their own.
Inventory with_shared_layers(const Inventory& inventory, const SharedLayers& shared);

}  // namespace memest
