#include "kernels/matmul.hpp"

#include <array>
#include <cstddef>

namespace memest::kernels {

void matmul_reference(const MatmulShape& shape, const MatmulOperands& operands) {
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  const auto [m, n, k] = std::array{shape.m, shape.n, shape.k};
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    const auto left = operands.left.subspan(at(batch * m * k), at(m * k));
    const auto right = operands.right.subspan(at(batch * k * n), at(k * n));
    const auto result = operands.result.subspan(at(batch * m * n), at(m * n));
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = shape.accumulates ? result[at(row * n + column)] : 0;
        for (std::int64_t i = 0; i < k; ++i) {
          sum += left[at(left_along_k(shape) ? row * k + i : i * m + row)] *
                 right[at(right_along_k(shape) ? column * k + i : i * n + column)];
        }
        result[at(row * n + column)] = sum;
      }
    }
  }
}

}  // namespace memest::kernels
