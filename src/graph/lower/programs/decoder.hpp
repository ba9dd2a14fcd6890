// A decoder-only transformer becomes blocks: embedding, one block a kind of layer, head, loss.
#pragma once

#include <string_view>
#include <variant>

#include "memest/graph/lower.hpp"

namespace memest {

/// `model` is a decoder whose program is written as that of `model_type`.
std::variant<Graph, Unavailable> lower_decoder(const ModelSpec& model, std::string_view model_type,
                                               const LoweringPolicy& policy);

}  // namespace memest
