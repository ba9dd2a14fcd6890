// The model's tensors one by one, as PyTorch walks them.
#pragma once

#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// Every parameter of the inventory, layer by layer: the order of Module.parameters().
std::vector<TensorPlace> parameters_one_by_one(const Inventory& inventory);
/// Every buffer.
std::vector<TensorPlace> buffers_one_by_one(const Inventory& inventory);

}  // namespace memest
