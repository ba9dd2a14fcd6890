#include "memory/programs/loop.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/sharding/fsdp_habits.hpp"

namespace memest {
namespace {

/// How many labels of a sequence the Trainer counts: it leaves out the first where the name of the
/// model's class says that its loss is a causal one, which GPT2LMHeadModel's does not.
std::int64_t counted_labels(const Job& job) {
  return job.training->seq_len - (job.model.model_type == "gpt2" ? 0 : 1);
}

}  // namespace

TrainingLoop::TrainingLoop(const Job& job, const ForwardOrder& order, Engine& engine,
                           OptimizerRun& optimizer, Recorder& recorder)
    : training_(*job.training),
      order_(order),
      engine_(engine),
      optimizer_(optimizer),
      recorder_(recorder),
      habits_(loop_habits_of(training_.implementation.loop)),
      others_(recorder),
      scaler_(recorder),
      ranks_(job.parallelism.data),
      sums_targets_(ranks_ > 1),
      reduces_last_(reduces_last(job)),
      clips_(!shards_by<DeepSpeedZero>(job) && !job.parallelism.offload.optimizer &&
             (job.training->clip_gradients ||
              loop_habits_of(job.training->implementation.loop).keeps_norm)),
      casts_loss_(casts_loss(job)),
      counted_labels_(checked_multiply(job.training->micro_batch, counted_labels(job))),
      shares_(job, recorder) {
  if (habits_.reports_loss) {
    make(order_.loss_bytes(), Holding::buffers, LoopTensor::reported_loss);
  }
}

/// fp16 under autocast asks for a gradient scaler.
bool TrainingLoop::scales() const {
  return training_.recipe.autocast && training_.recipe.compute == DType::fp16;
}

/// The loop divides the loss by the micro-steps.
bool TrainingLoop::divides() const {
  if (habits_.always_divides) return true;
  return training_.gradient_accumulation > 1 && !habits_.fetches_ahead;
}

void TrainingLoop::begin_run() {
  if (habits_.sends_next_batch) send_batch(0);
  if (!habits_.evaluates_first) return;
  recorder_.begin(Phase::forward);
  evaluate();
  recorder_.end();
}

void TrainingLoop::step(std::uint16_t number) {
  recorder_.begin_step(number);
  if (habits_.step_is_function) send_targets();
  if (number == 1) begin_run();
  if (stages_ != nullptr) {
    run_pipeline();
  } else {
    run_micro_steps();
  }
  recorder_.begin(Phase::clip);
  recorder_.release(std::exchange(norm_, kNoStorage));
  clip();
  recorder_.end();
  recorder_.begin(Phase::optimizer);
  engine_.hand_over(optimizer_);
  const bool fused = training_.optimizer_implementation == OptimizerImplementation::fused;
  if (scales()) scaler_.begin_step(fused);
  optimizer_.step();
  if (scales()) {
    scaler_.end_step();
    scaler_.update();
  }
  recorder_.end();
  if (habits_.step_is_function) return_from_step();
  recorder_.begin(Phase::zero_grad);
  optimizer_.zero_grad();
  if (training_.zero_grad == ZeroGrad::set_to_none) engine_.drop_gradients();
  recorder_.end();
  if (habits_.fetches_ahead || habits_.names_outputs || habits_.step_is_function) return;
  // The loop keeps the loss for its report; the batch is a local of the step.
  drop(std::exchange(reported_, std::exchange(loss_, {})));
  drop(std::exchange(batches_, {}));
}

/// From the second on they do the same: those behind two that made the same events are copied, but
/// for a last one that reduces gradients.
void TrainingLoop::run_micro_steps() {
  const std::int64_t all = training_.gradient_accumulation;
  const std::int64_t count = std::min(all, kMostMicroSteps);
  const std::int64_t alike = reduces_last_ ? count - 1 : count;
  others_.end_with_model();
  Recorder::Mark before;
  for (std::int64_t i = 1; i <= count; ++i) {
    const Recorder::Mark here = recorder_.mark();
    const bool model = i + 2 == count;  // in the last one there is only what all of them leave
    if (i == count && count < all) others_.add(others_.left_by_model(), all - count);
    if (model) others_.begin_model();
    engine_.hold_gradients(reduces_last_ && i < count);
    micro_step(static_cast<std::uint16_t>(i));
    if (model) others_.end_model();
    if (i > 2 && i < alike && recorder_.repeats(before, here)) {
      recorder_.repeat(here, alike - i);
      i = alike;
    }
    before = here;
  }
}

/// All micro-batches are one batch of the loader's. The last stage's losses are stacked, summed and
/// divided; other ranks make a number in their place.
void TrainingLoop::run_pipeline() {
  const std::int64_t sequences =
      checked_multiply(training_.micro_batch, training_.gradient_accumulation);
  const std::int64_t bytes = checked_multiply(sequences, training_.seq_len * size_of(DType::int64));
  recorder_.begin(Phase::batch, 1);
  batches_.push_back({make(bytes, Holding::batch, LoopTensor::batch),
                      make(bytes, Holding::batch, LoopTensor::labels)});
  if (shares_.cuts()) shares_.make(sequences);
  recorder_.end();
  recorder_.begin(Phase::backward, 1);
  const std::vector<StorageId> losses =
      shares_.cuts() ? stages_->run(shares_.inputs(), shares_.labels())
                     : stages_->run(batches_.back().inputs, batches_.back().labels);
  const auto number = [this](std::int64_t count) {
    return make(checked_multiply(count, size_of(DType::fp32)), Holding::activations,
                LoopTensor::loss);
  };
  if (losses.empty()) {
    loss_.scalar = number(1);
  } else {
    const StorageId stack = number(static_cast<std::int64_t>(losses.size()));
    const StorageId sum = number(1);
    recorder_.release(stack);
    loss_.scalar = number(1);
    recorder_.release(sum);
  }
  shares_.drop();
  drop(losses);
  recorder_.end();
}

/// The losses of the micro-steps are stacked and summed for the report.
void TrainingLoop::return_from_step() {
  const std::int64_t count =
      stages_ != nullptr ? 1 : std::min(training_.gradient_accumulation, kMostMicroSteps);
  const auto numbers = [this](std::int64_t elements) {
    return make(checked_multiply(elements, size_of(DType::fp32)), Holding::temporaries,
                LoopTensor::reported_loss);
  };
  const StorageId stack = numbers(count);
  const StorageId sum = numbers(1);
  recorder_.release(stack);
  recorder_.release(std::exchange(targets_, kNoStorage));
  recorder_.release(std::exchange(float_targets_, kNoStorage));
  recorder_.release(sum);
  drop(std::exchange(batches_, {}));
  for (const Loss& loss : std::exchange(losses_, {})) drop(loss);
  drop(std::exchange(loss_, {}));
  recorder_.release(std::exchange(norm_, kNoStorage));
  others_.end_with_model();
}

/// A float where one rank trains alone; else the sum is read back.
void TrainingLoop::send_targets() {
  recorder_.begin(Phase::batch);
  targets_ = make(size_of(DType::int64), Holding::batch, LoopTensor::targets);
  if (sums_targets_) {
    recorder_.release(make(size_of(DType::int64), Holding::temporaries, LoopTensor::targets));
  } else {
    float_targets_ = make(size_of(DType::fp32), Holding::batch, LoopTensor::targets);
  }
  recorder_.end();
}

void TrainingLoop::micro_step(std::uint16_t number) {
  if (!habits_.sends_next_batch) send_batch(number);
  recorder_.begin(Phase::forward, number);
  forward(habits_.fetches_ahead ? batches_[number - 1U] : batches_.back());
  recorder_.end();
  if (habits_.sends_next_batch) send_batch(number);
  recorder_.begin(Phase::backward, number);
  backward();
  recorder_.end();
  if (habits_.reports_loss) report_loss();
}

StorageId TrainingLoop::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.allocate(bytes, label);
}

StorageId TrainingLoop::scalar(Holding holding, LoopTensor tensor) {
  const std::int64_t bytes = casts_loss_ ? size_of(training_.recipe.compute) : order_.loss_bytes();
  return make(bytes, holding, tensor);
}

/// A reference of its own to the loss that backward() is called on.
StorageId TrainingLoop::divided_loss(StorageId loss) {
  if (divides()) return scalar(Holding::activations, LoopTensor::scaled_loss);
  recorder_.retain(loss);
  return loss;
}

/// The model's outputs (logits, cache, and the loss where the model takes it) are held until the
/// forward's function returns, or until the next one has its own.
void TrainingLoop::forward(const Batch& batch) {
  if (shares_.cuts()) shares_.make(training_.micro_batch);
  engine_.forward(shares_.cuts() ? shares_.inputs() : batch.inputs,
                  shares_.cuts() ? shares_.labels() : batch.labels);
  if (habits_.names_outputs) {
    drop(std::exchange(held_outputs_, {engine_.logits()}));
    drop(std::exchange(loss_, {}));
    loss_.scalar = divided_loss(engine_.loss());
    recorder_.release(engine_.loss());
    engine_.end_autocast();
    return;
  }
  const StorageId wrapped = engine_.take_wrapped_loss();
  const StorageId loss = wrapped == kNoStorage ? divided_loss(engine_.loss()) : wrapped;
  std::vector<StorageId> outputs = engine_.take_answered();
  if (habits_.step_is_function) {
    loss_sum_ = engine_.loss();
  } else if (training_.loss == TrainingLoss::cross_entropy) {
    outputs.push_back(engine_.loss());
  } else {
    recorder_.release(engine_.loss());
  }
  engine_.end_autocast();
  StorageId logits = engine_.logits();
  if (habits_.widens_outputs && training_.recipe.autocast) logits = widened(logits);
  outputs.push_back(logits);
  if (training_.hold_outputs) outputs = std::exchange(held_outputs_, std::move(outputs));
  drop(outputs);
  if (habits_.step_is_function && loss_.scalar != kNoStorage)
    losses_.push_back(std::exchange(loss_, {}));
  drop(std::exchange(loss_, {loss, engine_.take_kept_with_loss()}));
}

/// accelerate's convert_outputs_to_fp32.
StorageId TrainingLoop::widened(StorageId logits) {
  if (order_.widened_logits_bytes() == 0) return logits;
  const StorageId wide =
      make(order_.widened_logits_bytes(), Holding::activations, LoopTensor::widened_logits);
  recorder_.release(logits);
  return wide;
}

void TrainingLoop::drop(const std::vector<StorageId>& outputs) {
  for (const StorageId output : outputs) recorder_.release(output);
}

void TrainingLoop::drop(const Loss& loss) {
  for (const StorageId storage : loss.kept) recorder_.release(storage);
  recorder_.release(loss.scalar);
}

void TrainingLoop::drop(const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) {
    recorder_.release(batch.inputs);
    recorder_.release(batch.labels);
  }
}

/// loss.backward() begins with ones like the loss and holds them to its end. Every factor of the
/// loss has a node.
void TrainingLoop::backward() {
  StorageId divided = kNoStorage;
  if (habits_.divides_for_backward) {
    divided = scalar(Holding::temporaries, LoopTensor::scaled_loss);
  }
  const StorageId scaled = scales() ? scaler_.scale(order_.loss_bytes()) : kNoStorage;
  const StorageId ones = scalar(Holding::passing_gradients, LoopTensor::loss_gradient);
  StorageId gradient = ones;
  recorder_.retain(ones);
  const std::int64_t factors = habits_.loss_factors + (divides() ? 1 : 0) + (scales() ? 1 : 0);
  for (std::int64_t i = 0; i < factors; ++i) {
    const StorageId product = scalar(Holding::passing_gradients, LoopTensor::loss_gradient);
    recorder_.release(std::exchange(gradient, product));
  }
  if (casts_loss_) {
    const StorageId wide =
        make(order_.loss_bytes(), Holding::passing_gradients, LoopTensor::loss_gradient);
    recorder_.release(std::exchange(gradient, wide));
  }
  engine_.backward(gradient);
  for (const StorageId storage : engine_.take_kept_with_loss()) loss_.kept.push_back(storage);
  recorder_.release(ones);
  recorder_.release(std::exchange(loss_sum_, kNoStorage));
  shares_.drop();
  recorder_.release(scaled);
  recorder_.release(divided);
  // training_step returns the value, detached from its graph.
  if (habits_.reports_loss) drop({kNoStorage, std::exchange(loss_.kept, {})});
}

/// The value takes the place of the last one. torch.isnan, torch.isinf of it, and an addition in
/// place.
void TrainingLoop::report_loss() {
  drop(std::exchange(reported_, std::exchange(loss_, {})));
  const auto temporary = [this](DType type) {
    return make(size_of(type), Holding::temporaries, LoopTensor::reported_loss);
  };
  recorder_.release(temporary(DType::boolean));
  const StorageId magnitude = scalar(Holding::temporaries, LoopTensor::reported_loss);
  recorder_.release(temporary(DType::boolean));
  recorder_.release(magnitude);
}

void TrainingLoop::clip() {
  if (!clips_) return;
  if (scales()) scaler_.unscale();
  const StorageId norm = optimizer_.clip();
  if (habits_.keeps_norm) {
    norm_ = norm;
  } else {
    recorder_.release(norm);
  }
}

}  // namespace memest
