#include "kernels/check_shape.hpp"

#include <algorithm>
#include <string>

namespace memest::kernels {
namespace {

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kElements = 1 << 20;  // of rows together, unless one alone has more
constexpr std::int64_t kMatmulSize = 144;    // more than a tile of 128, and rows that fp8 can have
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

std::optional<std::string> CheckedKernels::difference(
    const KernelShape& small, const std::function<std::vector<KernelCheck>()>& check) {
  if (passed_.contains(small)) return std::nullopt;
  for (const KernelCheck& one : check()) {
    if (one.passed()) continue;
    return "a kernel differs from its reference in '" + one.result + "' by " +
           std::to_string(one.error) + ", where " + std::to_string(one.tolerance) + " is allowed";
  }
  passed_.insert(small);
  return std::nullopt;
}

}  // namespace memest::kernels
