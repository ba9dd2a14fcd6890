#include "kernels/host/matmul.hpp"

#include <Eigen/Core>
#include <array>

#include "kernels/matmul.hpp"

namespace memest::kernels {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstView = Eigen::Map<const Matrix>;
using View = Eigen::Map<Matrix>;

template <class Left, class Right>
void multiply(const Left& left, const Right& right, View result, bool accumulates) {
  if (accumulates) {
    result.noalias() += left * right;
  } else {
    result.noalias() = left * right;
  }
}

void multiply_one(const MatmulShape& shape, const HostMatmulOperands& operands) {
  const auto [m, n, k] = std::array{shape.m, shape.n, shape.k};
  View result(operands.result, m, n);
  switch (shape.pass) {
    case MatmulPass::forward:
      return multiply(ConstView(operands.left, m, k), ConstView(operands.right, n, k).transpose(),
                      result, shape.accumulates);
    case MatmulPass::data_gradient:
      return multiply(ConstView(operands.left, m, k), ConstView(operands.right, k, n), result,
                      shape.accumulates);
    case MatmulPass::weight_gradient:
      return multiply(ConstView(operands.left, k, m).transpose(), ConstView(operands.right, k, n),
                      result, shape.accumulates);
  }
}

}  // namespace

void host_matmul(const MatmulShape& shape, const HostMatmulOperands& operands) {
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    multiply_one(shape, {.left = operands.left + batch * shape.m * shape.k,
                         .right = operands.right + batch * shape.k * shape.n,
                         .result = operands.result + batch * shape.m * shape.n});
  }
}

}  // namespace memest::kernels
