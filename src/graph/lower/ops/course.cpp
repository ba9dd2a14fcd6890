#include "graph/lower/ops/course.hpp"

#include <utility>

#include "graph/lower/ops/operations.hpp"

namespace memest {

Course::Made Course::make(std::string_view name, TensorId like, DType dtype) {
  made_.push_back({name, like, dtype});
  const auto index = static_cast<Made>(made_.size() - 1);
  steps_.push_back({StepKind::allocate, index});
  return index;
}

void Course::launch(KernelLaunch kernel) {
  steps_.push_back({StepKind::launch, static_cast<std::uint8_t>(launches_.size())});
  launches_.push_back(std::move(kernel));
}

void Course::write_forward(BlockBuilder& block, Op& op, Made out) && {
  const auto place_of = [out](Made made) {
    return static_cast<Made>(made < out ? made : made - 1);
  };
  for (std::size_t made = 0; made < made_.size(); ++made) {
    if (made == out) continue;
    const Temporary& one = made_[made];
    op.forward_scratch.push_back(
        scratch(block, {op.name, one.name}, block.tensor(one.like).shape, one.dtype));
  }
  const auto output = static_cast<Made>(op.forward_scratch.size());
  for (Step step : steps_) {
    if (step.kind == StepKind::allocate || step.kind == StepKind::free) {
      step.tensor = step.tensor == out ? output : place_of(step.tensor);
    }
    op.forward_steps.push_back(step);
  }
  op.forward_launches = std::move(launches_);
}

void Course::write_backward(Op& op) && {
  for (const Temporary& one : made_) op.backward_tensors.push_back({one.like, one.dtype});
  op.backward_steps = std::move(steps_);
  op.backward_launches = std::move(launches_);
}

}  // namespace memest
