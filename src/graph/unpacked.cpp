#include "memest/graph/unpacked.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace memest {
namespace {

/// Fused attention: attn_bias, key, query, value; log_sumexp, output, and its seeds, of which flash
/// attention's rng_state is larger than what it calls unused.
void sort_attention(const Block& block, const Bindings& sizes, std::ptrdiff_t arguments,
                    std::vector<TensorId>& order) {
  constexpr std::ptrdiff_t kOperands = 3;
  const auto begin = order.begin();
  if (arguments < kOperands || order.end() - begin < arguments + 2) return;
  std::iter_swap(begin, begin + 1);
  if (arguments > kOperands) std::rotate(begin, begin + kOperands, begin + kOperands + 1);
  std::iter_swap(begin + arguments, begin + arguments + 1);
  const auto words = [&](TensorId id) { return block.tensors[id].elements().evaluate(sizes); };
  std::stable_sort(begin + arguments + 2, order.end(),
                   [&](TensorId left, TensorId right) { return words(left) > words(right); });
}

/// Saved tensors by the names of their arguments in tools/autograd/derivatives.yaml.
std::vector<TensorId> in_order(const Block& block, const Op& op, const Bindings& sizes) {
  std::vector<TensorId> order = op.saved;
  const OpKind kind = op.kind;
  // The order of mul is other, self, that of mm and bmm mat2, self; addmm, which adds a bias, has
  // mat1, mat2.
  const bool by_matrix = kind == OpKind::linear && op.inputs.size() == 2;
  if (kind == OpKind::multiply || kind == OpKind::batched_matmul || by_matrix) {
    std::ranges::reverse(order);
  }
  const bool norm =
      kind == OpKind::layernorm || kind == OpKind::rmsnorm || kind == OpKind::batchnorm;
  if (!norm && kind != OpKind::attention) return order;
  const auto is_argument = [&](TensorId id) {
    return std::ranges::find(op.outputs, id) == op.outputs.end();
  };
  std::ranges::stable_partition(order, is_argument);
  const std::ptrdiff_t arguments = std::ranges::count_if(order, is_argument);
  if (kind == OpKind::attention) sort_attention(block, sizes, arguments, order);
  // LayerNorm has bias, input, weight, and its statistics.
  constexpr std::ptrdiff_t kOfLayerNorm = 3;
  if (kind == OpKind::layernorm && arguments == kOfLayerNorm) {
    std::rotate(order.begin(), order.begin() + 2, order.begin() + kOfLayerNorm);
  }
  return order;
}

/// Less than the whole, of several rows.
bool is_part(const Tensor& tensor, const Tensor& storage, const Bindings& sizes) {
  const auto count = [&](const Tensor& of) { return of.elements().evaluate(sizes); };
  return count(tensor) < count(storage) && count(storage) > storage.shape.back().evaluate(sizes);
}

/// CudnnBatchNormBackward0 and NativeBatchNormBackward0 save running_mean and running_var behind
/// the input: buffers in the weights' type, as long as the batch's own statistics.
void add_running(const Block& block, const Op& op, std::vector<UnpackedTensor>& unpacked) {
  const DType type = block.tensors[op.inputs[1]].dtype;
  for (int mean_and_variance = 0; mean_and_variance < 2; ++mean_and_variance) {
    const TensorId like = op.outputs[1];
    const Expr bytes = block.tensors[like].elements() * Expr(size_of(type));
    unpacked.push_back({like, bytes, Lying::by_rows, false});
  }
}

}  // namespace

std::vector<UnpackedTensor> unpacked_by(const Block& block, const Op& op, const Bindings& sizes) {
  std::vector<UnpackedTensor> unpacked;
  if (op.gradients.empty()) return unpacked;
  for (const TensorId id : in_order(block, op, sizes)) {
    const Tensor& tensor = block.tensors[id];
    const Tensor& storage = block.tensors[tensor.storage];
    UnpackedTensor one{id, tensor.bytes(), Lying::by_rows, false};
    const auto made = std::ranges::find(op.outputs, tensor.storage);
    one.made_by_op = made != op.outputs.end();
    if (std::ranges::find(op.transposed, id) != op.transposed.end()) one.lying = Lying::transposed;
    if (is_part(tensor, storage, sizes)) one.lying = Lying::part;
    unpacked.push_back(std::move(one));
    if (op.kind == OpKind::batchnorm && unpacked.size() == 1) add_running(block, op, unpacked);
  }
  return unpacked;
}

std::vector<TensorId> listed_of(const Block& block, const Op& op,
                                const std::vector<UnpackedTensor>& saved) {
  std::vector<TensorId> listed;
  for (const UnpackedTensor& one : saved) {
    const TensorId storage = block.tensors[one.tensor].storage;
    if (block.tensors[storage].role == Role::parameter) continue;
    if (one.lying != Lying::by_rows && op.kind != OpKind::attention) continue;
    if (std::ranges::find(listed, storage) == listed.end()) listed.push_back(storage);
  }
  return listed;
}

}  // namespace memest
