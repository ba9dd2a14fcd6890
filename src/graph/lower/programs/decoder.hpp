// A decoder-only transformer becomes blocks: embedding, one block a kind of layer, head, loss.
#pragma once

#include <variant>

#include "graph/lower/ops/decoder_program.hpp"
#include "memest/graph/lower.hpp"

namespace memest {

/// `model` is a decoder as `program` stores it.
std::variant<Graph, Unavailable> lower_decoder(const ModelSpec& model, const LoweringPolicy& policy,
                                               const DecoderProgram& program);

}  // namespace memest
