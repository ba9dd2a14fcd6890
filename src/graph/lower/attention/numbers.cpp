#include "graph/lower/attention/numbers.hpp"

namespace memest {

Numbers Numbers::of_length(std::int64_t length) {
  const auto rounded = [length](std::int64_t step) {
    return Expr((length + step - 1) / step * step);
  };
  return Numbers({{Symbol::seq_len, Expr(length)},
                  {Symbol::seq_len_8, rounded(8)},
                  {Symbol::seq_len_32, rounded(32)},
                  {Symbol::seq_len_64, rounded(64)},
                  {Symbol::seq_len_128, rounded(128)}});
}

void Numbers::put(Expr& formula) const {
  for (const auto& [symbol, number] : numbers_) {
    if (formula.uses(symbol)) formula = formula.substitute(symbol, number);
  }
}

void Numbers::put(Tensor& tensor) const {
  for (Expr& size : tensor.shape) put(size);
}

void Numbers::put(Op& op) const {
  for (Work* work : {&op.forward, &op.backward}) {
    put(work->flops);
    put(work->bytes);
  }
  put(op.forward_launches);
  put(op.backward_launches);
}

void Numbers::put(std::vector<KernelLaunch>& launches) const {
  for (KernelLaunch& launch : launches) {
    for (Expr* one : {&launch.outer, &launch.reduced, &launch.inner, &launch.scratch_bytes}) {
      put(*one);
    }
  }
}

}  // namespace memest
