// Weights that are kept as codes.
#pragma once

#include <optional>

#include "memest/graph/graph.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// `inventory` with the weights of linear layers marked that `quantized` keeps as codes.
Inventory with_codes(Inventory inventory, const QuantizedWeights& quantized);

/// Why a weight of `inventory` cannot be kept so; none where all can, as codes_together() asks.
[[nodiscard]] std::optional<Unavailable> uneven_groups(const Inventory& inventory,
                                                       const QuantizedWeights& quantized);

}  // namespace memest
