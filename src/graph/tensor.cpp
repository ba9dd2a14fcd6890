#include "memest/graph/tensor.hpp"

namespace memest {

Expr Tensor::elements() const {
  Expr product(1);
  for (const Expr& dimension : shape) product *= dimension;
  return product;
}

Expr Tensor::bytes() const {
  constexpr std::int64_t kBitsOfByte = 8;
  if (bits > 0) return elements() * Expr(bits) / Expr(kBitsOfByte);
  return elements() * Expr(size_of(dtype));
}

}  // namespace memest
