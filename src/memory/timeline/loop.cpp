#include "loop.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace memest {
namespace {

/// From the second micro-step on all make the same events; a few let the allocator settle.
constexpr std::int64_t kMostMicroSteps = 8;

}  // namespace

TrainingLoop::TrainingLoop(const Job& job, const ForwardOrder& order, Engine& engine,
                           OptimizerRun& optimizer, Recorder& recorder)
    : training_(*job.training),
      order_(order),
      engine_(engine),
      optimizer_(optimizer),
      recorder_(recorder),
      scaler_(recorder) {}

/// fp16 under autocast asks for a gradient scaler.
bool TrainingLoop::scales() const {
  return training_.recipe.autocast && training_.recipe.compute == DType::fp16;
}

void TrainingLoop::step(std::uint16_t number) {
  recorder_.begin_step(number);
  const std::int64_t count = std::min(training_.gradient_accumulation, kMostMicroSteps);
  for (std::int64_t i = 1; i <= count; ++i) {
    micro_step(static_cast<std::uint16_t>(i));
  }
  recorder_.begin(Phase::clip);
  if (scales()) scaler_.unscale();
  if (training_.clip_gradients) optimizer_.clip();
  recorder_.end();
  recorder_.begin(Phase::optimizer);
  optimizer_.step();
  if (scales()) scaler_.update();
  recorder_.end();
  recorder_.begin(Phase::zero_grad);
  optimizer_.zero_grad();
  if (training_.zero_grad == ZeroGrad::set_to_none) engine_.drop_gradients();
  recorder_.end();
  // The loop keeps the loss for its report; the batch is a local of the step.
  drop(std::exchange(loss_of_last_step_, std::exchange(loss_, {})));
  recorder_.release(std::exchange(batch_, kNoStorage));
}

void TrainingLoop::micro_step(std::uint16_t number) {
  recorder_.begin(Phase::batch, number);
  load_batch();
  recorder_.end();
  recorder_.begin(Phase::forward, number);
  forward();
  recorder_.end();
  recorder_.begin(Phase::backward, number);
  backward();
  recorder_.end();
}

/// Where the labels are the token ids themselves they are sent a second time, and dropped.
void TrainingLoop::load_batch() {
  Label label;
  label.holding = Holding::batch;
  label.tensor = static_cast<std::uint16_t>(LoopTensor::batch);
  const StorageId batch = recorder_.allocate(order_.batch_bytes(), label);
  if (order_.batch_is_token_ids()) {
    label.tensor = static_cast<std::uint16_t>(LoopTensor::batch_copy);
    recorder_.release(recorder_.allocate(order_.batch_bytes(), label));
  }
  recorder_.release(std::exchange(batch_, batch));
}

StorageId TrainingLoop::scalar(Holding holding, LoopTensor tensor) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.allocate(order_.loss_bytes(), label);
}

/// The model's outputs, loss and logits, are held until the forward's function returns, or until
/// the next one has its own.
void TrainingLoop::forward() {
  engine_.forward(batch_);
  StorageId loss = engine_.loss();
  const StorageId outputs_loss = loss;
  if (training_.gradient_accumulation > 1) {
    loss = scalar(Holding::activations, LoopTensor::scaled_loss);  // loss / micro-steps
  } else {
    recorder_.retain(loss);
  }
  engine_.end_autocast();
  if (training_.hold_outputs) {
    recorder_.release(std::exchange(held_logits_, engine_.logits()));
    recorder_.release(std::exchange(held_loss_, outputs_loss));
  } else {
    recorder_.release(engine_.logits());
    recorder_.release(outputs_loss);
  }
  drop(std::exchange(loss_, {loss, engine_.take_kept_with_loss()}));
}

void TrainingLoop::drop(const Loss& loss) {
  for (const StorageId storage : loss.kept) recorder_.release(storage);
  recorder_.release(loss.scalar);
}

/// loss.backward() begins with ones like the loss and holds them to its end.
void TrainingLoop::backward() {
  const StorageId scaled = scales() ? scaler_.scale(order_.loss_bytes()) : kNoStorage;
  const StorageId ones = scalar(Holding::passing_gradients, LoopTensor::loss_gradient);
  StorageId gradient = ones;
  recorder_.retain(ones);
  const auto multiplied = [this](StorageId incoming) {
    const StorageId made = scalar(Holding::passing_gradients, LoopTensor::loss_gradient);
    recorder_.release(incoming);
    return made;
  };
  if (scales()) gradient = multiplied(gradient);
  if (training_.gradient_accumulation > 1) gradient = multiplied(gradient);
  engine_.backward(gradient);
  for (const StorageId storage : engine_.take_kept_with_loss()) loss_.kept.push_back(storage);
  recorder_.release(ones);
  recorder_.release(scaled);
}

}  // namespace memest
