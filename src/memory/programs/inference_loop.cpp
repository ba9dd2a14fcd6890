#include "memory/programs/inference_loop.hpp"

namespace memest {

void InferenceLoop::prompt(std::uint16_t number) {
  recorder_.begin_step(number);
  recorder_.begin(Phase::batch);
  Label label;
  label.holding = Holding::batch;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::batch);
  const StorageId batch = recorder_.allocate(order_.batch_bytes(), label);
  recorder_.end();
  recorder_.begin(Phase::forward);
  engine_.forward(batch);
  engine_.end_autocast();
  recorder_.end();
  for (const StorageId answered : engine_.take_answered()) recorder_.release(answered);
  recorder_.release(engine_.logits());
  recorder_.release(batch);
}

}  // namespace memest
