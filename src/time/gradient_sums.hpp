// Autograd's engine adds up gradients beside the operations: of a tensor that several of them read,
// and rows of a bias's.
#pragma once

#include <vector>

#include "memest/time/work.hpp"

namespace memest {

/// The sums of PyTorch's engine, as an operation of each block where they run: in eager blocks. In
/// a region of torch.compile the generated kernels read all gradients that wait for the one which
/// they compute. `executions`: of each block.
std::vector<OpWork> gradient_sums(const Graph& graph, const Bindings& sizes,
                                  const std::vector<double>& executions);

}  // namespace memest
