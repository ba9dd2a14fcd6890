#include "graph/lower/ops/course.hpp"

#include <algorithm>
#include <utility>

#include "graph/lower/ops/operations.hpp"

namespace memest {

Course::Made Course::make(std::string_view name, TensorId like, DType dtype) {
  made_.push_back({name, like, dtype});
  const auto index = static_cast<Made>(made_.size() - 1);
  add(StepKind::allocate, index);
  return index;
}

void Course::launch(KernelLaunch kernel) {
  add(StepKind::launch, static_cast<std::uint8_t>(launches_.size()));
  launches_.push_back(std::move(kernel));
}

void Course::write_forward(BlockBuilder& block, Op& op, const std::vector<Made>& outs) && {
  std::vector<std::uint8_t> places(made_.size());
  for (std::size_t made = 0; made < made_.size(); ++made) {
    if (std::ranges::find(outs, made) != outs.end()) continue;
    const Temporary& one = made_[made];
    places[made] = static_cast<std::uint8_t>(op.forward_scratch.size());
    op.forward_scratch.push_back(
        scratch(block, {op.name, one.name}, block.tensor(one.like).shape, one.dtype));
  }
  for (std::size_t i = 0; i < outs.size(); ++i) {
    places[outs[i]] = static_cast<std::uint8_t>(op.forward_scratch.size() + i);
  }
  for (Step step : steps_) {
    if (step.kind == StepKind::allocate || step.kind == StepKind::free) {
      step.tensor = places[step.tensor];
    }
    op.forward_steps.push_back(step);
  }
  op.forward_launches = std::move(launches_);
  op.forward_messages = std::move(messages_);
}

void Course::write_backward(Op& op) && {
  for (const Temporary& one : made_) op.backward_tensors.push_back({one.like, one.dtype});
  op.backward_steps = std::move(steps_);
  op.backward_launches = std::move(launches_);
  op.backward_messages = std::move(messages_);
}

}  // namespace memest
