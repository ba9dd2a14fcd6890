// Tensors that tensor-parallel ranks send one another beside products
// (megatron/core/tensor_parallel/mappings.py): autograd functions with a tensor of their own, whose
// backward sends it the other way.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {

/// Messages of both passes; the second absent: each rank takes its part of the gradient.
struct Exchange {
  MessageKind forward = MessageKind::all_gather;
  std::optional<MessageKind> backward = {};
  OpKind kind = OpKind::exchange;
  std::vector<TensorId> scratch = {};  ///< made beside what is answered
};

/// `x` after `exchange`, a tensor of its own.
TensorId exchanged(BlockBuilder& block, const Made& made, TensorId x, Exchange exchange);

/// scatter_to_sequence_parallel_region: a view of this rank's tokens, cloned where it is read;
/// its gradient is gathered.
TensorId own_tokens(BlockBuilder& block, const MegatronContext& context, Place place, TensorId x);

}  // namespace memest
