#include "memory/loop/loop.hpp"

#include <algorithm>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/sharding/fsdp_habits.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// How many labels of a micro-batch the Trainer counts: of every row it leaves out the first where
/// the name of the model's class says that its loss is a causal one.
std::int64_t counted_labels(const Job& job) {
  const TrainingSpec& training = *job.training;
  const std::int64_t rows = training.padding_free ? 1 : training.micro_batch;
  const std::int64_t tokens = checked_multiply(training.micro_batch, training.seq_len);
  return tokens - (job.model.named_for_causal_loss ? rows : 0);
}

}  // namespace

TrainingLoop::TrainingLoop(const Parts& parts)
    : training_(*parts.job.training),
      order_(parts.order),
      engine_(parts.engine),
      optimizer_(parts.optimizer),
      recorder_(parts.recorder),
      habits_(loop_habits_of(training_.implementation)),
      teacher_(parts.teacher),
      others_(parts.recorder),
      scaler_(parts.recorder),
      ranks_(parts.job.parallelism.data),
      sums_targets_(ranks_ > 1),
      reduces_last_(reduces_last(parts.job)),
      clips_(!shards_by<DeepSpeedZero>(parts.job) && !parts.job.parallelism.offload.optimizer &&
             (parts.job.training->clip_gradients ||
              loop_habits_of(parts.job.training->implementation).takes_norm)),
      steps_in_backward_(shards_by<DeepSpeedZero>(parts.job)),
      casts_loss_(casts_loss(parts.job)),
      counted_labels_(counted_labels(parts.job)),
      shares_(parts.job, parts.recorder) {
  if (habits_.reports_loss) {
    recorder_.allocate(size_of(DType::fp32),
                       loop_label(Holding::buffers, LoopTensor::reported_loss));
  }
  if (habits_.weighs_by_targets) {
    weighed_.emplace(training_, recorder_);
    // cleanup_before_training() of the distributed recipes.
    if (ranks_ > 1) parts.recorder.empty_cache();
  }
  if (!habits_.names_answer) return;
  mean_.emplace(training_, recorder_);
  validation_.emplace(parts.job, recorder_);
}

bool TrainingLoop::prefers() const { return row_of(training_.implementation.loop).prefers; }

/// fp16 under autocast asks for a gradient scaler.
bool TrainingLoop::scales() const {
  return training_.recipe.autocast && training_.recipe.compute == DType::fp16;
}

/// The loop divides the loss by the micro-steps.
bool TrainingLoop::divides() const {
  if (habits_.always_divides) return true;
  // Trainer.training_step does not where the model's loss takes num_items_in_batch, which divides
  // for the whole step.
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
  if (habits_.counts_targets) send_targets();
  if (number == 1) begin_run();
  if (stages_ != nullptr) {
    run_pipeline();
  } else {
    run_micro_steps();
  }
  recorder_.begin(Phase::clip);
  if (weighed_) weighed_->scale_gradients();
  if (!weighed_) norm_.drop();
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
  // update_parameters() sends the number of averaged models, but for the first time.
  if (training_.averages_weights && number > 1) {
    recorder_.make_and_free(size_of(DType::int64),
                            loop_label(Holding::temporaries, LoopTensor::average));
  }
  recorder_.end();
  if (habits_.step_is_function) return_from_step();
  recorder_.begin(Phase::zero_grad);
  optimizer_.zero_grad();
  if (training_.zero_grad == ZeroGrad::set_to_none) engine_.drop_gradients();
  ended_graph_.drop();
  recorder_.end();
  if (weighed_) weighed_->report(norm_);
  if (!habits_.keeps_step_loss()) return;
  // The batch is a local of the step.
  rename(reported_, std::exchange(loss_, {}));
  drop_in_order(batches_);
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
  Batch& batch = batches_.emplace_back();
  batch.inputs = make(bytes, Holding::batch, LoopTensor::batch);
  batch.labels = make(bytes, Holding::batch, LoopTensor::labels);
  if (shares_.cuts()) shares_.make(sequences);
  recorder_.end();
  recorder_.begin(Phase::backward, 1);
  HeldVector losses = shares_.stand_in() ? stages_->run(shares_.inputs(), shares_.labels())
                                         : stages_->run(batch.inputs.id(), batch.labels.id());
  const auto number = [this](std::int64_t count) {
    return make(checked_multiply(count, size_of(DType::fp32)), Holding::activations,
                LoopTensor::loss);
  };
  if (losses.empty()) {
    loss_.scalar = number(1);
  } else {
    HeldStorage stack = number(static_cast<std::int64_t>(losses.size()));
    const HeldStorage sum = number(1);
    stack.drop();
    loss_.scalar = number(1);
  }
  shares_.drop();
  losses.drop();
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
  HeldStorage stack = numbers(count);
  HeldStorage sum = numbers(1);
  stack.drop();
  targets_.drop();
  float_targets_.drop();
  sum.drop();
  if (!habits_.generates_batches) drop_in_order(batches_);
  drop_in_order(losses_);
  rename(loss_, {});
  norm_.drop();
  others_.end_with_model();
}

void TrainingLoop::micro_step(std::uint16_t number) {
  ended_graph_.drop();
  if (!habits_.sends_next_batch) send_batch(number);
  recorder_.begin(Phase::forward, number);
  forward(habits_.fetches_ahead ? batches_[number - 1U] : batches_.back());
  recorder_.end();
  if (habits_.sends_next_batch) send_batch(number);
  recorder_.begin(Phase::backward, number);
  backward();
  recorder_.end();
  if (habits_.reports_loss) report_loss();
  if (!mean_) return;
  rename(loss_, {});
  mean_->report();
}

HeldStorage TrainingLoop::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  return recorder_.make(bytes, loop_label(holding, tensor));
}

HeldStorage TrainingLoop::scalar(Holding holding, LoopTensor tensor) {
  const std::int64_t bytes = casts_loss_ ? size_of(training_.recipe.compute) : order_.loss_bytes();
  return make(bytes, holding, tensor);
}

/// loss.backward() begins with ones like the loss and holds them to its end. Every factor of the
/// loss has a node.
void TrainingLoop::backward() {
  HeldStorage divided;
  if (habits_.divides_for_backward) {
    divided = scalar(Holding::temporaries, LoopTensor::scaled_loss);
  }
  HeldStorage scaled = scales() ? scaler_.scale(order_.loss_bytes()) : HeldStorage();
  HeldStorage ones = scalar(Holding::passing_gradients, LoopTensor::loss_gradient);
  HeldStorage gradient = recorder_.share(ones.id());
  const std::int64_t factors = habits_.loss_factors + (divides() ? 1 : 0) + (scales() ? 1 : 0);
  for (std::int64_t i = 0; i < factors; ++i) {
    gradient = scalar(Holding::passing_gradients, LoopTensor::loss_gradient);
  }
  if (casts_loss_) {
    gradient = make(order_.loss_bytes(), Holding::passing_gradients, LoopTensor::loss_gradient);
  }
  engine_.backward(gradient.give_up());
  for (const StorageId storage : engine_.take_kept_with_loss()) {
    loss_.kept.push_back(recorder_.adopt(storage));
  }
  ones.drop();
  loss_sum_.drop();
  shares_.drop();
  scaled.drop();
  divided.drop();
  // training_step returns the value, detached from its graph.
  if (habits_.reports_loss) ended_graph_ = std::exchange(loss_.kept, {});
  if (!steps_in_backward_) ended_graph_.drop();
}

/// The value takes the place of the last one. torch.isnan, torch.isinf of it, and an addition in
/// place.
void TrainingLoop::report_loss() {
  rename(reported_, std::exchange(loss_, {}));
  const Label flag = loop_label(Holding::temporaries, LoopTensor::reported_loss);
  recorder_.make_and_free(size_of(DType::boolean), flag);
  const HeldStorage magnitude = scalar(Holding::temporaries, LoopTensor::reported_loss);
  recorder_.make_and_free(size_of(DType::boolean), flag);
}

void TrainingLoop::clip() {
  if (!clips_) return;
  // clip_grad_norm_ is held to gradients without the loss scale.
  if (scales()) scaler_.unscale();
  HeldStorage norm = optimizer_.clip();
  if (habits_.keeps_norm) norm_ = std::move(norm);
}

}  // namespace memest
