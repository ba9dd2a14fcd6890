// The programs whose models have a graph, a file each. Each answers a rank's graph of a decoder
// with the parameters as the program stores them, or why there is none.
#pragma once

#include <variant>

#include "memest/graph/lower.hpp"

namespace memest {

std::variant<Graph, Unavailable> lower_transformers(const ModelSpec& model,
                                                    const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_torchtitan(const ModelSpec& model,
                                                  const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_torchtune(const ModelSpec& model,
                                                 const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_litgpt(const ModelSpec& model, const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_megatron(const ModelSpec& model,
                                                const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_nanotron(const ModelSpec& model,
                                                const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_nanogpt(const ModelSpec& model,
                                               const LoweringPolicy& policy);
std::variant<Graph, Unavailable> lower_textbook(const ModelSpec& model,
                                                const LoweringPolicy& policy);
/// A list of layers in a plain loop.
std::variant<Graph, Unavailable> lower_layer_list(const ModelSpec& model,
                                                  const LoweringPolicy& policy);

}  // namespace memest
