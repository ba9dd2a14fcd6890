// Weights of torchao's float8 linears that FSDP2 gathers in fp8: their blocks are given them so.
#pragma once

#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// Whether the tensors of each row of Graph::parameters are gathered in fp8. `model` is what was
/// lowered.
[[nodiscard]] std::vector<bool> gathered_in_fp8(const Graph& graph, const ModelSpec& model,
                                                const Implementation& implementation);

}  // namespace memest
