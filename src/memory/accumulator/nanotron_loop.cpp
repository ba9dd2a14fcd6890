#include "memory/accumulator/nanotron_loop.hpp"

#include <algorithm>
#include <utility>

#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

NanotronLoop::NanotronLoop(const Parts& parts)
    : job_(parts.job),
      training_(*parts.job.training),
      order_(parts.order),
      engine_(parts.engine),
      states_(parts.states),
      recorder_(parts.recorder),
      place_{parts.job.parallelism.pipeline, parts.rank, 1},
      tokens_(checked_multiply(training_.micro_batch, training_.seq_len)) {
  const std::int64_t shards = job_.parallelism.sequence ? job_.parallelism.tensor : 1;
  const auto& decoder = std::get<DecoderSpec>(job_.model.architecture);
  stream_bytes_ = checked_multiply(
      tokens_ / shards, checked_multiply(decoder.hidden_size, size_of(training_.recipe.weights)));
}

HeldStorage NanotronLoop::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  return recorder_.make(bytes, loop_label(holding, tensor));
}

HeldStorage NanotronLoop::scalar(LoopTensor tensor) {
  return make(size_of(DType::fp32), Holding::temporaries, tensor);
}

/// The generator sends the next micro-batch before the name lets the last one go.
void NanotronLoop::load() {
  const auto of = [&](DType type, LoopTensor tensor) {
    return make(checked_multiply(tokens_, size_of(type)), Holding::batch, tensor);
  };
  Batch next;
  if (is_first()) {
    next.ids = of(DType::int64, LoopTensor::batch);
    next.mask = of(DType::boolean, LoopTensor::attention_mask);
  }
  if (is_last()) {
    next.labels = of(DType::int64, LoopTensor::labels);
    next.label_mask = of(DType::boolean, LoopTensor::loss_mask);
  }
  batch_ = std::move(next);
}

void NanotronLoop::forward() {
  load();
  Flight flight;
  flight.state = engine_.fresh();
  sent_.drop();
  // run_communication: an activation is received, then a gradient is sent.
  if (!is_first()) {
    flight.input = make(stream_bytes_, Holding::batch, LoopTensor::received);
    sent_back_.drop();
  }
  engine_.exchange(flight.state);
  engine_.bind_input("token ids", batch_.ids.id());
  engine_.bind_input("labels", batch_.labels.id());
  HeldStorage answer = recorder_.adopt(engine_.forward_stage(0, flight.input.id()));
  if (is_last()) {
    recorder_.release(engine_.logits());
    take_loss(flight, std::move(answer));
  } else {
    sent_ = std::move(answer);
  }
  engine_.exchange(flight.state);
  flights_.push_back(std::move(flight));
}

/// masked_mean: (loss * mask).sum() / mask.sum(); then divided by the micro-batches.
void NanotronLoop::take_loss(Flight& flight, HeldStorage per_token) {
  flight.label_mask = recorder_.share(batch_.label_mask.id());
  HeldStorage masked = make(order_.loss_bytes(), Holding::activations, LoopTensor::loss);
  HeldStorage sum = scalar(LoopTensor::loss);
  masked.drop();
  flight.counted = make(size_of(DType::int64), Holding::activations, LoopTensor::token_count);
  const HeldStorage mean = scalar(LoopTensor::loss);
  sum.drop();
  per_token.drop();
  flight.loss = make(size_of(DType::fp32), Holding::activations, LoopTensor::loss);
  losses_.push_back(recorder_.share(flight.loss.id()));
}

/// Answers the gradient of all tokens' losses.
StorageId NanotronLoop::backward_of_loss(Flight& flight) {
  HeldStorage gradient = scalar(LoopTensor::loss_gradient);
  gradient = scalar(LoopTensor::loss_gradient);
  flight.counted.drop();
  HeldStorage spread =
      make(order_.loss_bytes(), Holding::passing_gradients, LoopTensor::loss_gradient);
  gradient.drop();
  flight.label_mask.drop();
  return spread.give_up();
}

/// FP32GradientAccumulator.backward: loss.backward(), then all gradients are added to the buffer
/// and go. DDP reduces the last micro-batch's.
void NanotronLoop::backward(bool last) {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  states_.hold_gradients(!last);
  // sum(activations), and ones like it.
  const HeldStorage summed = is_last() ? scalar(LoopTensor::scaled_loss) : HeldStorage();
  const HeldStorage ones = is_last() ? scalar(LoopTensor::loss_gradient) : HeldStorage();
  sent_.drop();
  StorageId gradient = kNoStorage;
  if (is_last()) {
    gradient = backward_of_loss(flight);
  } else {
    HeldStorage received = make(stream_bytes_, Holding::passing_gradients, LoopTensor::received);
    gradient = received.give_up();
  }
  sent_back_.drop();
  engine_.exchange(flight.state);
  const StorageId of_input = engine_.backward_stage(0, gradient);
  engine_.exchange(flight.state);
  if (is_first()) {
    if (of_input != kNoStorage) recorder_.release(of_input);
  } else {
    sent_back_ = recorder_.adopt(of_input);
  }
  engine_.drop_gradients();
}

/// Without a pipeline a micro-batch's backward follows its forward. AFAB sends what it makes at
/// once, 1F1B in its first forwards alone.
void NanotronLoop::run_pipeline() {
  const std::int64_t all = training_.gradient_accumulation;
  const std::int64_t count = std::min(all, kMostMicroSteps * place_.ranks);
  std::int64_t left = count;
  for (const PipelineAction& action : actions_of(job_.parallelism.schedule, place_, count)) {
    if (action.forward) {
      forward();
      continue;
    }
    backward(--left == 0);
  }
  sent_.drop();
  sent_back_.drop();
}

/// torch.stack(losses).sum(). The names in train() are of the step before until this one returns.
void NanotronLoop::report_loss() {
  if (!is_last()) return;
  const auto count = static_cast<std::int64_t>(losses_.size());
  const HeldStorage stack = make(checked_multiply(count, size_of(DType::fp32)),
                                 Holding::temporaries, LoopTensor::reported_loss);
  losses_.push_back(scalar(LoopTensor::reported_loss));
}

void NanotronLoop::step(std::uint16_t number) {
  recorder_.begin_step(number);
  HeldVector before = std::exchange(losses_, {});
  recorder_.begin(Phase::backward);
  run_pipeline();
  batch_ = {};
  report_loss();
  recorder_.end();
  recorder_.begin(Phase::optimizer);
  states_.step();
  before.drop();
  recorder_.end();
}

}  // namespace memest
