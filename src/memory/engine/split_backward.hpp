// A stage's backward in two parts, as torch.distributed.pipelining runs it (PyTorch 2.11,
// torch/distributed/pipelining/_backward.py). The first makes the input's gradient and keeps all
// that was saved, and beside it the gradient that came to every node of a parameter. The second
// runs these nodes again, one after another in the order of Module.parameters(), each from a copy
// of that gradient. Tensors that the other nodes saved go with the last of those that lead to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/engine/forward_order.hpp"

namespace memest {

struct SplitBackward {
  /// A parameter's gradient, in the order in which the second part makes them.
  struct Group {
    std::uint32_t site = 0;   ///< of ForwardOrder::sites()
    std::uint32_t use = 0;    ///< of ForwardOrder::parameters()
    std::uint8_t tensor = 0;  ///< of those that the op's backward makes
  };
  std::vector<Group> groups;
  /// Sites whose nodes end with the first part, or with each of the groups.
  std::vector<std::vector<std::uint32_t>> ending;
};

/// `uses`: the stage's parameters as its modules register them.
[[nodiscard]] SplitBackward plan_split(const ForwardOrder& order, std::size_t stage,
                                       const std::vector<std::uint32_t>& uses);

}  // namespace memest
