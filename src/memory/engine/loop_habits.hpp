// Habits in which the program around the model differs though a step's mathematics is the same:
// when batches are sent, who divides the loss, what is kept from step to step.
#pragma once

#include <cstdint>

#include "memest/spec/model.hpp"
#include "memest/spec/training.hpp"

namespace memest {

/// From the second micro-step on all make the same events; a few let the allocator settle.
inline constexpr std::int64_t kMostMicroSteps = 8;

/// When the model is wrapped for its ranks.
enum class Wrapping : std::uint8_t {
  with_its_place,    ///< as soon as it has its place on the device
  before_training,   ///< later, by the program
  without_its_place  ///< before it has one; what needs tensors waits for the first forward
};

/// How the model comes to the device where it is whole.
enum class Construction : std::uint8_t {
  moved,        ///< Module.to()
  by_litgpt,    ///< LitgptConstruction
  by_torchtune  ///< TorchtuneConstruction, on one GPU
};

struct LoopHabits {
  Wrapping wrapping = Wrapping::with_its_place;
  /// The program takes the loss: the model's forward ends with the logits.
  bool loss_outside = false;
  Construction construction = Construction::moved;
  /// Has the allocator give back what it caches when the model has its place.
  bool empties_cache = false;
  /// Barriers of several ranks behind the model's place, while its data are prepared: the last
  /// one's tensor stays.
  std::int64_t barriers = 0;
  /// Evaluates the model on a batch of two sets before the first step.
  bool evaluates_first = false;
  /// Sends the next batch, labels of its own with it, between a forward and its backward.
  bool sends_next_batch = false;
  /// Logits and loss have names, which live until the next forward has answered.
  bool names_outputs = false;
  /// The model's answer has a name, which lives until the next forward's is there, and the loss is
  /// taken outside of it: its last value is reported behind every micro-step (RunningMean).
  bool names_answer = false;
  /// Sends two numbers of each sequence with a batch.
  bool sends_token_counts = false;
  /// Divides the loss by the micro-steps even where there is one.
  bool always_divides = false;
  /// Sends the labels as a tensor of their own.
  bool sends_labels = false;
  /// A step is a function, whose names end before the gradients go.
  bool step_is_function = false;
  /// Sends the number of the step's targets, which it has counted on the host, and sums it over the
  /// ranks: the sum of the losses and their mean are names of their own.
  bool counts_targets = false;
  /// Counts each micro-batch's targets on the device, and weighs its loss by them; the gradients
  /// are divided by their sum (WeighedLoss). A batch goes before the next is sent.
  bool weighs_by_targets = false;
  /// Hands the labels over to the forward, which drops them.
  bool hands_labels_over = false;
  /// Batches are names of a generator on the device: a step's last one goes as the next is fetched.
  bool generates_batches = false;
  /// Sends all batches of a step, labels of their own with each, and counts the targets before the
  /// first forward. Their mean is then taken in the model: there is no division by micro-steps.
  bool fetches_ahead = false;
  /// The model answers in fp32 what autocast left in 16 bits.
  bool widens_outputs = false;
  /// Constant factors on the loss beside that of the micro-steps, and whether the last of them, at
  /// the beginning of the backward, makes a tensor.
  std::int64_t loss_factors = 0;
  bool divides_for_backward = false;
  /// Drops the loss's graph behind the backward, adds its value to a running sum, and first looks
  /// whether it is a number.
  bool reports_loss = false;
  /// Takes the gradients' norm even where nothing is clipped.
  bool takes_norm = false;
  /// Keeps it until the next.
  bool keeps_norm = false;
  /// Whether `row` is in the optimizer's first group, the one that decays.
  bool (*decays)(const ParameterTensor& row) = nullptr;

  /// Keeps a step's last loss, and with it its graph, until the next step has ended: to report it.
  [[nodiscard]] bool keeps_step_loss() const {
    return !fetches_ahead && !names_outputs && !names_answer && !step_is_function &&
           !weighs_by_targets;
  }
  /// Keeps a micro-step's loss until the next forward has answered.
  [[nodiscard]] bool keeps_micro_step_loss() const { return !reports_loss && !names_answer; }
};

/// PyTorch's idiom in few lines, karpathy/nanoGPT's train.py, the Trainer of transformers 5.17 with
/// accelerate 1.15, or torchtitan's release.
const LoopHabits& loop_habits_of(const Implementation& implementation);

}  // namespace memest
