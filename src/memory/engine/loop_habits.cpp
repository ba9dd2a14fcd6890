#include "memory/engine/loop_habits.hpp"

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

/// nanoGPT, model.py, configure_optimizers.
bool is_matrix(const ParameterTensor& row) { return row.shape.size() > 1; }

/// Trainer.get_decay_parameter_names.
bool is_no_norm_or_bias(const ParameterTensor& row) {
  return row.role != ParameterRole::norm && row.role != ParameterRole::bias;
}

constexpr LoopHabits kPlain = {};
constexpr LoopHabits kNanoGpt = {.wrapping = Wrapping::before_training,
                                 .evaluates_first = true,
                                 .sends_next_batch = true,
                                 .names_outputs = true,
                                 .always_divides = true,
                                 .decays = is_matrix};
// Trainer.compute_loss multiplies the loss in place by the number of processes,
// Accelerator.backward divides it by its own micro-steps, of which the Trainer's has one.
constexpr LoopHabits kTrainer = {.wrapping = Wrapping::before_training,
                                 .empties_cache = true,
                                 .fetches_ahead = true,
                                 .widens_outputs = true,
                                 .loss_factors = 2,
                                 .divides_for_backward = true,
                                 .reports_loss = true,
                                 .takes_norm = true,
                                 .keeps_norm = true,
                                 .decays = is_no_norm_or_bias};

// SFTTrainer.compute_loss multiplies the loss out of place, as an operation of the loss. Its data
// are prepared in global_then_local_main_first().
constexpr LoopHabits with_own_loss(LoopHabits habits) {
  habits.loss_factors = 1;
  habits.barriers = 2;
  return habits;
}
constexpr LoopHabits kSft = with_own_loss(kTrainer);
// DPOTrainer's loss takes no num_items_in_batch: training_step divides it by the micro-steps.
constexpr LoopHabits preferring(LoopHabits habits) {
  habits.always_divides = true;
  return habits;
}
constexpr LoopHabits kDpo = preferring(kSft);

// Trainer.train_step.
constexpr LoopHabits kTorchtitan = {.wrapping = Wrapping::without_its_place,
                                    .loss_outside = true,
                                    .always_divides = true,
                                    .sends_labels = true,
                                    .step_is_function = true,
                                    .counts_targets = true,
                                    .takes_norm = true,
                                    .keeps_norm = true};
// 0.1.0, train.py: batch_generator yields what it has sent, accumulated_loss_fn divides a mean.
constexpr LoopHabits with_generator(LoopHabits habits) {
  habits.counts_targets = false;
  habits.generates_batches = true;
  habits.keeps_norm = false;
  return habits;
}
constexpr LoopHabits kEarlyTorchtitan = with_generator(kTorchtitan);

// recipes/full_finetune_single_device.py, train(): current_loss = self._loss_step(batch) *
// current_num_tokens; training.scale_grads(self._model, 1 / num_tokens).
constexpr LoopHabits kTorchtune = {.wrapping = Wrapping::without_its_place,
                                   .construction = Construction::by_torchtune,
                                   .always_divides = true,
                                   .sends_labels = true,
                                   .weighs_by_targets = true,
                                   .hands_labels_over = true,
                                   .generates_batches = true,
                                   .keeps_norm = true};

// finetune/{full,lora}.py, fit(): validate() of two batches comes first.
constexpr LoopHabits kLitgpt = {.wrapping = Wrapping::without_its_place,
                                .construction = Construction::by_litgpt,
                                .evaluates_first = true,
                                .names_answer = true,
                                .sends_token_counts = true,
                                .always_divides = true,
                                .sends_labels = true};

}  // namespace

const LoopHabits& loop_habits_of(const Implementation& implementation) {
  switch (implementation.loop) {
    case LoopKind::plain:
      return kPlain;
    case LoopKind::nanogpt:
      return kNanoGpt;
    case LoopKind::trainer:
      return kTrainer;
    case LoopKind::sft:
      return kSft;
    case LoopKind::dpo:
      return kDpo;
    case LoopKind::torchtitan:
      return row_of(implementation.torchtitan).is_early ? kEarlyTorchtitan : kTorchtitan;
    case LoopKind::torchtune:
      return kTorchtune;
    case LoopKind::litgpt:
      return kLitgpt;
  }
  unreachable("every loop has habits");
}

}  // namespace memest
