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
    now_.bytes += size;
    rising_ = true;
  }
  void fall(const Expr& size) {
    note();
    now_.bytes -= size;
    rising_ = false;
  }
  /// From here on a parameter has its gradient.
  void rise_by_gradient(std::size_t made) {
    now_.gradients.push_back(made);
    rising_ = true;
  }
  std::vector<StepPeak> take() && {
    note();
    return std::move(peaks_);
  }

 private:
  /// A formula that another exceeds in every coefficient is never the largest, whatever the sizes.
  /// The gradients that an earlier peak has a later one has too.
  void note() {
    if (!rising_) return;
    const auto exceeds = [this](const StepPeak& peak) {
      return peak.gradients.size() == now_.gradients.size() &&
             never_negative(peak.bytes - now_.bytes);
    };
    if (std::any_of(peaks_.begin(), peaks_.end(), exceeds)) return;
    std::erase_if(peaks_,
                  [this](const StepPeak& peak) { return never_negative(now_.bytes - peak.bytes); });
    peaks_.push_back(now_);
  }

  std::vector<StepPeak> peaks_;
  StepPeak now_;
  bool rising_ = true;
};

/// Adds what a kernel asks for beside its results, and the parameter's gradient that it makes.
void add_launch(const Block& block, const Op& op, const KernelLaunch& launch, Peaks& peaks) {
  const bool makes = launch.kind == KernelLaunch::Kind::embedding_backward;
  if (makes && becomes_parameter_gradient(block, op, launch.result)) {
    peaks.rise_by_gradient(launch.result);
  }
  if (launch.scratch_bytes.is_zero()) return;
  peaks.rise(launch.scratch_bytes);
  peaks.fall(launch.scratch_bytes);
}

}  // namespace

std::vector<StepPeak> peaks_of_steps(const Block& block, const Op& op,
                                     std::span<const Step> steps) {
  Peaks peaks;
  for (const Step& step : steps) {
    switch (step.kind) {
      case StepKind::launch:
        add_launch(block, op, op.backward_launches[step.tensor], peaks);
        break;
      case StepKind::product:
        break;
      case StepKind::drop_saved:
        peaks.fall(block.tensors[op.saved[step.tensor]].bytes());
        break;
      case StepKind::allocate:
      case StepKind::free:
        if (becomes_parameter_gradient(block, op, step.tensor)) {
          if (step.kind == StepKind::allocate) peaks.rise_by_gradient(step.tensor);
          break;
        }
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

std::vector<Expr> peaks_of_course(const Block& block, const Op& op, bool takes_kept) {
  Peaks peaks;
  std::vector<TensorId> own;
  for (const TensorId id : op.outputs) {
    // The course makes the outputs that are no views of what is there.
    // They are in the moment that these peaks are added to, and so the course begins without them.
    if (block.tensors[id].storage != id) continue;
    own.push_back(id);
    if (!takes_kept || !op.kept_selectively) peaks.rise(Expr() - block.tensors[id].bytes());
  }
  for (const Step& step : op.forward_steps) {
    if (step.kind != StepKind::allocate && step.kind != StepKind::free) continue;
    if (takes_kept && op.keeps_selectively(step)) continue;
    const std::size_t scratch = op.forward_scratch.size();
    const TensorId id =
        step.tensor < scratch ? op.forward_scratch[step.tensor] : own[step.tensor - scratch];
    if (step.kind == StepKind::free) {
      peaks.fall(block.tensors[id].bytes());
    } else {
      peaks.rise(block.tensors[id].bytes());
    }
  }
  std::vector<Expr> bytes;
  for (StepPeak& peak : std::move(peaks).take()) bytes.push_back(std::move(peak.bytes));
  return bytes;
}

}  // namespace memest
