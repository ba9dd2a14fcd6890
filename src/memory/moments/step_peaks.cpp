#include "memory/moments/step_peaks.hpp"

#include <algorithm>
#include <utility>

namespace memest {

bool never_negative(const Expr& formula) {
  const std::vector<Monomial>& monomials = formula.monomials();
  return std::all_of(monomials.begin(), monomials.end(), [](const Monomial& monomial) {
    return monomial.coefficient.numerator() >= 0;
  });
}

Expr bytes_of_made(const Block& block, const BackwardTensor& made) {
  return block.tensors[made.like].elements() * Expr(size_of(made.dtype));
}

bool becomes_parameter_gradient(const Block& block, const Op& op, std::size_t made) {
  return std::any_of(op.gradients.begin(), op.gradients.end(), [&](const InputGradient& gradient) {
    return gradient.tensor == made && block.tensors[gradient.input].role == Role::parameter;
  });
}

namespace {

/// Local maxima of bytes that come and go.
class Peaks {
 public:
  void rise(const Expr& size) {
    now_ += size;
    rising_ = true;
  }
  void fall(const Expr& size) {
    note();
    now_ -= size;
    rising_ = false;
  }
  std::vector<Expr> take() && {
    note();
    return std::move(peaks_);
  }

 private:
  void note() {
    if (!rising_) return;
    // A formula that another exceeds in every coefficient is never the largest, whatever the sizes.
    const auto exceeds = [this](const Expr& peak) { return never_negative(peak - now_); };
    if (std::any_of(peaks_.begin(), peaks_.end(), exceeds)) return;
    std::erase_if(peaks_, [this](const Expr& peak) { return never_negative(now_ - peak); });
    peaks_.push_back(now_);
  }

  std::vector<Expr> peaks_;
  Expr now_;
  bool rising_ = true;
};

}  // namespace

std::vector<Expr> peaks_of_steps(const Block& block, const Op& op, std::span<const Step> steps) {
  Peaks peaks;
  for (const Step& step : steps) {
    switch (step.kind) {
      case StepKind::launch: {
        const Expr& scratch = op.backward_launches[step.tensor].scratch_bytes;
        if (scratch.is_zero()) break;
        peaks.rise(scratch);
        peaks.fall(scratch);
        break;
      }
      case StepKind::product:
        break;
      case StepKind::drop_saved:
        peaks.fall(block.tensors[op.saved[step.tensor]].bytes());
        break;
      case StepKind::allocate:
      case StepKind::free:
        if (becomes_parameter_gradient(block, op, step.tensor)) break;
        const Expr size = bytes_of_made(block, op.backward_tensors[step.tensor]);
        if (step.kind == StepKind::free) {
          peaks.fall(size);
        } else {
          peaks.rise(size);
        }
        break;
    }
  }
  return std::move(peaks).take();
}

std::vector<Expr> peaks_of_course(const Block& block, const Op& op) {
  Peaks peaks;
  for (const TensorId id : op.outputs) {
    // The course makes the outputs that are no views of what is there.
    // They are in the moment that these peaks are added to, and so the course begins without them.
    if (block.tensors[id].storage == id) peaks.rise(Expr() - block.tensors[id].bytes());
  }
  for (const Step& step : op.forward_steps) {
    if (step.kind != StepKind::allocate && step.kind != StepKind::free) continue;
    const std::size_t scratch = op.forward_scratch.size();
    const TensorId id =
        step.tensor < scratch ? op.forward_scratch[step.tensor] : op.outputs[step.tensor - scratch];
    if (step.kind == StepKind::free) {
      peaks.fall(block.tensors[id].bytes());
    } else {
      peaks.rise(block.tensors[id].bytes());
    }
  }
  return std::move(peaks).take();
}

}  // namespace memest
