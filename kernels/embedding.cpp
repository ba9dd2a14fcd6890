#include "kernels/embedding.hpp"

#include <array>

#include "kernels/loops.hpp"

namespace memest::kernels {
namespace {

Operand tokens(const StreamShape& shape) {
  return {.name = "tokens",
          .dtype = DType::int64,
          .elements = shape.rows,
          .fill = Fill::index,
          .limit = kVocabulary};
}

Description describe(const StreamShape& shape) {
  return {.operands = {{.name = "table",
                        .dtype = shape.dtype,
                        .elements = kVocabulary * shape.columns,
                        .touched = elements_of(shape)},
                       tokens(shape),
                       array("y", shape, Access::writes)}};
}
Description describe_backward(const StreamShape& shape) {
  const std::int64_t n = elements_of(shape);
  return {.operands = {tokens(shape),
                       array("dy", shape),
                       {.name = "dtable",
                        .elements = kVocabulary * shape.columns,
                        .access = Access::updates,
                        // Each token adds to its row: read and written, n elements each.
                        .touched = n}},
          .flops = n};
}

template <class T>
T* table_row(T* table, const StreamShape& shape, T token) {
  return row_of(table, shape, static_cast<std::int64_t>(token));
}

struct Embedding {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t t = 0; t < shape.rows; ++t) {
      const T* row = table_row(operands[0], shape, operands[1][t]);
      T* y = row_of(operands[2], shape, t);
      for (std::int64_t c = 0; c < shape.columns; ++c) y[c] = row[c];
    }
  }
};
struct EmbeddingBackward {
  template <class T>
  static void run(const StreamShape& shape, T* const* operands) {
    for (std::int64_t t = 0; t < shape.rows; ++t) {
      const T* dy = row_of(operands[1], shape, t);
      T* row = table_row(operands[2], shape, operands[0][t]);
      for (std::int64_t c = 0; c < shape.columns; ++c) row[c] += dy[c];
    }
  }
};

constexpr std::array kKernels = {
    stream_kernel<Embedding>(StreamOp::embedding, KernelPass::forward, describe),
    stream_kernel<EmbeddingBackward>(StreamOp::embedding, KernelPass::backward, describe_backward)};

}  // namespace

std::span<const StreamKernel> embedding_kernels() { return kKernels; }

}  // namespace memest::kernels
