#include "step_peaks.hpp"

#include <algorithm>

namespace memest {

bool never_negative(const Expr& formula) {
  const std::vector<Monomial>& monomials = formula.monomials();
  return std::all_of(monomials.begin(), monomials.end(), [](const Monomial& monomial) {
    return monomial.coefficient.numerator() >= 0;
  });
}

Expr bytes_of(const Block& block, const BackwardTensor& made) {
  return block.tensors[made.like].elements() * Expr(size_of(made.dtype));
}

bool becomes_parameter_gradient(const Block& block, const Op& op, std::size_t made) {
  return std::any_of(op.gradients.begin(), op.gradients.end(), [&](const InputGradient& gradient) {
    return gradient.tensor == made && block.tensors[gradient.input].role == Role::parameter;
  });
}

std::vector<Expr> peaks_of_steps(const Block& block, const Op& op, std::span<const Step> steps) {
  std::vector<Expr> peaks;
  Expr now;
  bool rising = true;
  const auto note = [&] {
    if (!rising) return;
    const auto exceeds = [&now](const Expr& peak) { return never_negative(peak - now); };
    if (std::any_of(peaks.begin(), peaks.end(), exceeds)) return;
    std::erase_if(peaks, [&now](const Expr& peak) { return never_negative(now - peak); });
    peaks.push_back(now);
  };
  const auto fall = [&](const Expr& size) {
    note();
    now -= size;
    rising = false;
  };
  for (const Step& step : steps) {
    switch (step.kind) {
      case StepKind::launch: {
        const Expr& scratch = op.backward_launches[step.tensor].scratch_bytes;
        if (scratch.is_zero()) break;
        now += scratch;
        rising = true;
        note();
        now -= scratch;
        break;
      }
      case StepKind::drop_saved:
        fall(block.tensors[op.saved[step.tensor]].bytes());
        break;
      case StepKind::allocate:
      case StepKind::free:
        if (becomes_parameter_gradient(block, op, step.tensor)) break;
        const Expr size = bytes_of(block, op.backward_tensors[step.tensor]);
        if (step.kind == StepKind::free) {
          fall(size);
        } else {
          now += size;
          rising = true;
        }
        break;
    }
  }
  note();
  return peaks;
}

}  // namespace memest
