#include "memory/programs/inference_loop.hpp"

#include "memory/generation/generation_loop.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// How many prompts the timeline answers: all make the same events.
constexpr std::uint16_t kPrompts = 3;
/// How many calls of generate().
constexpr std::uint16_t kGenerations = 2;

}  // namespace

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
  for (const Answered& answered : engine_.take_answered()) recorder_.release(answered.storage);
  recorder_.release(engine_.logits());
}

void run_prompts(const InferenceSpec& inference, const DecoderModel::Parts& parts) {
  if (inference.generation) {
    GenerationLoop loop(inference, parts);
    for (std::uint16_t i = 1; i <= kGenerations; ++i) loop.prompt(i);
    return;
  }
  Engine engine(parts.graph, parts.order, parts.settings, parts.recorder);
  InferenceLoop loop(parts.order, engine, parts.recorder);
  for (std::uint16_t i = 1; i <= kPrompts; ++i) loop.prompt(i);
}

}  // namespace memest
