#include "memest/graph/tensor.hpp"

namespace memest {

Expr Tensor::elements() const {
  Expr product(1);
  for (const Expr& dimension : shape) product *= dimension;
  return product;
}

Expr Tensor::bytes() const {
  Expr product(size_of(dtype));
  for (const Expr& dimension : shape) product *= dimension;
  return product;
}

}  // namespace memest
