#include "memest/graph/tensor.hpp"

namespace memest {

Expr elements_of(const std::vector<Expr>& shape) {
  Expr product(1);
  for (const Expr& dimension : shape) product *= dimension;
  return product;
}

Expr Tensor::elements() const { return elements_of(shape); }

Expr Tensor::bytes() const {
  constexpr std::int64_t kBitsOfByte = 8;
  if (bits > 0) return elements() * Expr(bits) / Expr(kBitsOfByte);
  return elements() * Expr(size_of(dtype));
}

}  // namespace memest
