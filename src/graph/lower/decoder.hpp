// A decoder-only transformer becomes blocks: embedding, one block a kind of layer, head, loss.
#pragma once

#include <string_view>
#include <variant>

#include "memest/graph/lower.hpp"

namespace memest {

std::variant<Graph, Unavailable> lower_decoder(const DecoderSpec& decoder,
                                               std::string_view model_type,
                                               const LoweringPolicy& policy);

}  // namespace memest
