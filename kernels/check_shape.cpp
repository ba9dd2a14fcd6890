#include "kernels/check_shape.hpp"

#include <algorithm>
#include <string>

#include "memest/diag/environment.hpp"

namespace memest::kernels {
namespace {

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kElements = 1 << 20;  // of rows together, unless one alone has more
constexpr std::int64_t kMatmulSize = 136;
constexpr std::int64_t kPositions = 256;
constexpr std::int64_t kEmbeddingColumns = 256;  // of a table of many rows

}  // namespace

StreamShape check_shape(const StreamShape& shape) {
  StreamShape small = shape;
  // Three beyond a power of two: the tail behind whole vectors is checked as well.
  small.columns = shape.rows == 1 ? std::min(shape.columns, kElements + 3) : shape.columns;
  if (shape.op == StreamOp::embedding) small.columns = std::min(shape.columns, kEmbeddingColumns);
  const std::int64_t rows = std::min(shape.rows, kRows);
  small.rows =
      std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(small.columns, 1), 1, rows);
  return small;
}

MatmulShape check_shape(const MatmulShape& shape) {
  MatmulShape small = shape;
  small.batch = std::min<std::int64_t>(shape.batch, 2);
  small.m = std::min(shape.m, kMatmulSize);
  small.n = std::min(shape.n, kMatmulSize);
  small.k = std::min(shape.k, kMatmulSize);
  return small;
}

AttentionShape check_shape(const AttentionShape& shape) {
  AttentionShape small = shape;
  small.batch = std::min<std::int64_t>(shape.batch, 2);
  small.kv_heads = std::min<std::int64_t>(shape.kv_heads, 2);
  // Two groups of two heads tell whether heads read their own group's keys.
  small.heads = small.kv_heads * std::min<std::int64_t>(shape.heads / shape.kv_heads, 2);
  small.seq_len = std::min(shape.seq_len, kPositions);
  return small;
}

void require_passed(const std::vector<KernelCheck>& checks) {
  for (const KernelCheck& check : checks) {
    if (check.passed()) continue;
    throw EnvironmentError("a kernel differs from its reference in '" + check.result + "' by " +
                           std::to_string(check.error) + ", where " +
                           std::to_string(check.tolerance) + " is allowed");
  }
}

}  // namespace memest::kernels
