#include "calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

std::int64_t value_of(const Expr& size, const Bindings& sizes) {
  return narrow_to_int64(size.evaluate(sizes));
}

/// [m, k] · [k, n], `batch` times, as the forward has it. k follows from the FLOPs.
MatmulShape forward_product(const OpWork& work, const Tensor& result, const Bindings& sizes) {
  const std::size_t rank = result.shape.size();
  const bool is_batched = work.op->kind == OpKind::batched_matmul && rank > 2;
  MatmulShape product{.operand = work.op->compute, .result = result.dtype};
  const std::int64_t elements = value_of(result.elements(), sizes);
  product.n = rank == 0 ? 1 : value_of(result.shape[rank - 1], sizes);
  product.m = is_batched ? value_of(result.shape[rank - 2], sizes) : elements / product.n;
  product.batch = elements / (product.m * product.n);
  product.k = static_cast<std::int64_t>(
      std::llround(work.forward.flops / (2 * static_cast<double>(elements))));
  return product;
}

bool trains_its_weight(const Op& op, const Block& block) {
  return std::any_of(op.gradients.begin(), op.gradients.end(), [&block](const auto& gradient) {
    return block.tensors[gradient.input].role == Role::parameter;
  });
}

/// dX[m, k] = dY[m, n] · W[n, k] and dW[k, n] = Xᵀ[k, m] · dY[m, n], as many as the FLOPs are of.
void add_backward_products(OpWork& work, const MatmulShape& forward, bool trains_weight) {
  const auto products = std::lround(work.backward.flops / work.forward.flops);
  MatmulShape data = forward;
  data.pass = MatmulPass::data_gradient;
  std::swap(data.n, data.k);
  MatmulShape weight = forward;
  weight.pass = MatmulPass::weight_gradient;
  std::swap(weight.m, weight.k);
  if (products >= 2) work.backward_calls = {data, weight};
  if (products == 1) work.backward_calls = {trains_weight ? weight : data};
}

void add_products(OpWork& work, const Block& block, const Bindings& sizes) {
  const MatmulShape forward = forward_product(work, block.tensors[work.op->outputs.front()], sizes);
  if (forward.k == 0) return;
  work.forward_calls = {forward};
  add_backward_products(work, forward, trains_its_weight(*work.op, block));
}

void add_attention(OpWork& work, const Block& block, const Bindings& sizes) {
  if (work.op->inputs.size() < 3) return;
  const auto tensor = [&](std::size_t i) -> const Tensor& {
    return block.tensors[work.op->inputs[i]];
  };
  AttentionShape shape{.kernel = "", .dtype = work.op->compute, .causal = work.op->causal};
  shape.batch = sizes.at(Symbol::micro_batch);
  shape.seq_len = sizes.at(Symbol::seq_len);
  const auto width = [&](std::size_t i) { return value_of(tensor(i).shape.back(), sizes); };
  const auto heads = [&](std::size_t i, std::int64_t head_dim) {
    return value_of(tensor(i).elements(), sizes) / (shape.batch * shape.seq_len * head_dim);
  };
  shape.head_dim = width(0);
  shape.value_head_dim = width(2);
  shape.heads = heads(0, shape.head_dim);
  shape.kv_heads = std::max<std::int64_t>(heads(1, shape.head_dim), 1);
  work.forward_calls = {shape};
  if (work.backward.flops == 0) return;
  shape.pass = KernelPass::backward;
  work.backward_calls = {shape};
}

}  // namespace

void add_calls(OpWork& work, const Block& block, const Bindings& sizes) {
  if (work.forward.flops == 0 || work.op->outputs.empty()) return;
  if (work.op->kind == OpKind::attention) {
    add_attention(work, block, sizes);
  } else if (class_of(work.op->kind) == OpClass::contraction) {
    add_products(work, block, sizes);
  }
}

}  // namespace memest
