// A plain list of layers becomes blocks, one a repeat of the list.
#pragma once

#include <variant>

#include "memest/graph/lower.hpp"

namespace memest {

std::variant<Graph, Unavailable> lower_layers(const LayerList& list, const LoweringPolicy& policy);

}  // namespace memest
