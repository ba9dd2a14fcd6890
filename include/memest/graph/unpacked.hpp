// The tensors that a node of autograd unpacks before it runs, where saved ones are packed by hooks
// (torch.autograd.graph.saved_tensors_hooks): every tensor that it saves, parameters and buffers
// too, each for itself however many nodes save it.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

/// How a saved tensor lies in its storage.
enum class Lying : std::uint8_t {
  by_rows,     ///< contiguous
  transposed,  ///< dense, its dimensions in another order
  part         ///< of rows that go on
};

/// One tensor that a node saves: an unpack hook gives it a storage of its own.
struct UnpackedTensor {
  TensorId tensor = 0;  ///< or one of its size
  Expr bytes;           ///< of its elements alone, where it is a part of a storage
  Lying lying = Lying::by_rows;
  bool made_by_op = false;  ///< packed when the op has run, others before
};

/// Tensors that `op`, of `block`, saves, in the order in which its node unpacks them
/// (tools/autograd/gen_autograd_functions.py: arguments, then results, each by its name). A single
/// row's part is contiguous, which `sizes` decide.
std::vector<UnpackedTensor> unpacked_by(const Block& block, const Op& op, const Bindings& sizes);

/// Storages of `saved`, as unpacked_by() answers of `op`, that Transformer Engine's offload copies,
/// each once (cpu_offload.py of 2.11, _check_if_offload): those of contiguous tensors, but no
/// parameter's, and the whole storage of what attention reads, which start_offload marks
/// (offload_base_tensor).
std::vector<TensorId> listed_of(const Block& block, const Op& op,
                                const std::vector<UnpackedTensor>& saved);

}  // namespace memest
