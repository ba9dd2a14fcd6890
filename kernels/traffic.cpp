#include "memest/kernels/traffic.hpp"

#include "kernels/description.hpp"

namespace memest {

std::optional<Bytes> stream_traffic(const StreamShape& shape) {
  const kernels::StreamKernel* kernel = kernels::find_stream_kernel(shape.op, shape.pass);
  if (kernel == nullptr) return std::nullopt;
  return kernels::traffic(kernel->describe(shape));
}

Flops matmul_flops(const MatmulShape& shape) {
  return Flops(2) * shape.batch * shape.m * shape.n * shape.k;
}

Bytes matmul_traffic(const MatmulShape& shape) {
  const Bytes operands =
      Bytes(shape.m * shape.k + shape.k * shape.n) * size_of(shape.operand) * shape.batch;
  const Bytes result = Bytes(shape.m * shape.n) * size_of(shape.result) * shape.batch;
  // A product that adds to its result reads it as well.
  return operands + result * (shape.accumulates ? 2 : 1);
}

Flops attention_flops(const AttentionShape& shape) {
  // Backward: scores again, dV and dP over the value's width, dQ and dK over the query's.
  const std::int64_t widths = shape.pass == KernelPass::forward
                                  ? shape.head_dim + shape.value_head_dim
                                  : 3 * shape.head_dim + 2 * shape.value_head_dim;
  return Flops(shape.causal ? 1 : 2) * shape.batch * shape.heads * shape.seq_len * shape.seq_len *
         widths;
}

}  // namespace memest
