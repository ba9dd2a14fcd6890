// The model's answer of a micro-step, its loss, and how long both have names.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "memest/spec/framework.hpp"
#include "memory/loop/loop.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

/// A reference of its own to the loss that backward() is called on.
HeldStorage TrainingLoop::divided_loss(StorageId loss) {
  if (divides()) return scalar(Holding::activations, LoopTensor::scaled_loss);
  return recorder_.share(loss);
}

void TrainingLoop::run_model(Batch& batch) {
  if (teacher_ != nullptr) return prefers() ? prefer(batch) : distil(batch);
  if (shares_.cuts()) shares_.make(training_.micro_batch);
  if (batch.images.is_of_storage()) engine_.bind_input(kImages, batch.images.id());
  if (batch.grids.is_of_storage()) engine_.bind_input(kImageGrids, batch.grids.id());
  if (batch.types.is_of_storage()) engine_.bind_input(kTypesOfTokens, batch.types.id());
  constexpr std::array<std::string_view, 3> kDocuments = {
      "position ids", "document starts of queries", "document starts of keys"};
  for (std::size_t i = 0; i < std::min(kDocuments.size(), batch.documents.size()); ++i) {
    engine_.bind_input(kDocuments[i], batch.documents[i].id());
  }
  const StorageId labels = shares_.stand_in() ? shares_.labels() : batch.labels.id();
  if (habits_.hands_labels_over) engine_.hand_in("labels", batch.labels.give_up());
  engine_.forward(shares_.stand_in() ? shares_.inputs() : batch.inputs.id(), labels);
}

/// Student first, as transformers' and torchtune's recipes have it: the teacher runs beside all
/// that autograd keeps.
void TrainingLoop::distil(const Batch& batch) {
  engine_.forward_model(batch.inputs.id(), batch.labels.id());
  HeldStorage taught = teacher_->forward(batch.inputs.id()).result;
  engine_.bind_input("teacher logits", taught.id());
  engine_.take_loss();
  taught.drop();
  recorder_.release(engine_.logits());
}

/// DPOTrainer._compute_loss: labels of the completions, the model, its reference, the loss. Each
/// forward has an autocast of its own, and the answers of both have names.
void TrainingLoop::prefer(const Batch& batch) {
  constexpr std::int64_t kFlags = size_of(DType::int64) / size_of(DType::boolean);
  HeldStorage prompt =
      make(order_.batch_bytes() / kFlags, Holding::temporaries, LoopTensor::labels);
  HeldStorage labels = make(order_.batch_bytes(), Holding::batch, LoopTensor::labels);
  prompt.drop();
  engine_.bind_input("completion labels", labels.id());
  engine_.forward_model(batch.inputs.id(), batch.labels.id());
  HeldVector outputs;
  outputs.push_back(recorder_.adopt(engine_.logits()));
  for (const Answered& answered : engine_.take_answered()) {
    outputs.push_back(recorder_.adopt(answered.storage));
  }
  engine_.end_autocast();
  engine_.begin_loss();
  TeacherModel::Answer reference = teacher_->forward(batch.inputs.id());
  engine_.bind_input("reference log-probs", reference.result.id());
  engine_.take_loss();
  labels.drop();
  outputs.drop();
  reference.others.drop();
  reference.result.drop();
}

/// The model's outputs (logits, cache, and the loss where the model takes it) are held until the
/// forward's function returns, or until the next one has its own.
void TrainingLoop::forward(Batch& batch) {
  if (habits_.names_answer) return name_answer(batch);
  run_model(batch);
  if (habits_.names_outputs) return name_answers();
  HeldStorage answered = recorder_.adopt(engine_.loss());
  const StorageId wrapped = engine_.take_wrapped_loss();
  // A distillation's end with the function that took the loss.
  HeldStorage logits = teacher_ == nullptr ? recorder_.adopt(engine_.logits()) : HeldStorage();
  HeldVector outputs;
  // Around a model whose loss is taken outside of it, the copies are operations.
  const bool copies =
      engine_.copies_answers() && !row_of(training_.implementation.loop).takes_tiles;
  // The loop's autocast stands around the wrapper, accelerate's within.
  if (copies && !habits_.widens_outputs) copy_answers({answered, logits, outputs});
  if (!copies)
    for (const Answered& other : engine_.take_answered())
      (weighed_ ? weighed_->labels() : outputs).push_back(recorder_.adopt(other.storage));
  Loss loss;
  loss.scalar = wrapped == kNoStorage ? divided_loss(answered.id()) : recorder_.adopt(wrapped);
  if (habits_.counts_targets) {
    loss_sum_ = std::move(answered);
  } else if (training_.loss == TrainingLoss::cross_entropy) {
    outputs.push_back(std::move(answered));
  } else {
    answered.drop();
  }
  engine_.end_autocast();
  if (habits_.widens_outputs && training_.recipe.autocast) logits = widened(std::move(logits));
  if (copies && habits_.widens_outputs) copy_answers({loss.scalar, logits, outputs});
  outputs.push_back(std::move(logits));
  if (training_.hold_outputs) std::swap(outputs, held_outputs_);
  outputs.drop();
  if (habits_.step_is_function && loss_.scalar.is_of_storage())
    losses_.push_back(std::exchange(loss_, {}));
  for (const StorageId storage : engine_.take_kept_with_loss()) {
    loss.kept.push_back(recorder_.adopt(storage));
  }
  rename(loss_, std::move(loss));
  if (weighed_) weighed_->add_loss();
}

/// A loop whose names of the answers are the script's: each ends when the next answer takes it.
void TrainingLoop::name_answers() {
  HeldVector outputs;
  outputs.push_back(recorder_.adopt(engine_.logits()));
  held_outputs_ = std::move(outputs);
  rename(loss_, {});
  HeldStorage whole = recorder_.adopt(engine_.loss());
  loss_.scalar = divided_loss(whole.id());
  whole.drop();
  engine_.end_autocast();
}

/// The model's answer takes the name of its last one.
void TrainingLoop::take_answer() {
  HeldVector answer;
  for (const Answered& one : engine_.take_answered()) {
    answer.push_back(recorder_.adopt(one.storage));
  }
  held_outputs_ = std::move(answer);
}

/// The loss of the answer, which has a name until its value is reported.
void TrainingLoop::name_answer(const Batch& batch) {
  engine_.forward_model(batch.inputs.id(), batch.labels.id());
  take_answer();
  engine_.take_loss();
  loss_sum_ = recorder_.adopt(engine_.loss());
  loss_.scalar = divided_loss(loss_sum_.id());
  engine_.end_autocast();
}

/// accelerate's convert_outputs_to_fp32.
HeldStorage TrainingLoop::widened(HeldStorage logits) {
  if (order_.widened_logits_bytes() == 0) return logits;
  return make(order_.widened_logits_bytes(), Holding::activations, LoopTensor::widened_logits);
}

/// The model's own end when the wrapper has answered (_DDPSink); copies of those without a graph.
void TrainingLoop::copy_answers(const Answers& answers) {
  const auto copied = [this](const HeldStorage& answer) {
    const bool is = answer.is_of_storage();
    return make(is ? recorder_.timeline().storages[answer.id()].bytes : 0, Holding::activations,
                LoopTensor::answer_copy);
  };
  HeldStorage loss = scalar(Holding::activations, LoopTensor::answer_copy);
  HeldStorage logits = copied(answers.logits);
  HeldVector originals;
  HeldVector dropped;
  for (const Answered& other : engine_.take_answered()) {
    HeldStorage original = recorder_.adopt(other.storage);
    HeldStorage copy = copied(original);
    (other.has_graph ? originals : answers.others).push_back(std::move(original));
    (other.has_graph ? answers.others : dropped).push_back(std::move(copy));
  }
  answers.loss = std::move(loss);
  answers.logits = std::move(logits);
  originals.drop();
  dropped.drop();
}

}  // namespace memest
