#include "memory/programs/inference_loop.hpp"

#include "memory/timeline/labels.hpp"

namespace memest {

void InferenceLoop::prompt(std::uint16_t number) {
  recorder_.begin_step(number);
  recorder_.begin(Phase::batch);
  const HeldStorage batch =
      recorder_.make(order_.batch_bytes(), loop_label(Holding::batch, LoopTensor::batch));
  recorder_.end();
  recorder_.begin(Phase::forward);
  engine_.forward(batch.id());
  engine_.end_autocast();
  recorder_.end();
  for (const StorageId answered : engine_.take_answered()) recorder_.release(answered);
  recorder_.release(engine_.logits());
}

}  // namespace memest
