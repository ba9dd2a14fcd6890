#include "memory/loop/weighed_loss.hpp"

#include <utility>

#include "memest/units/int128.hpp"

namespace memest {

WeighedLoss::WeighedLoss(const TrainingSpec& training, Recorder& recorder)
    : recorder_(recorder),
      labels_(checked_multiply(training.micro_batch, training.seq_len)),
      scales_(!training.steps_in_backward) {
  // ignore_labels_cache: torch.full((batch_size, 1), ignore_index).
  recorder_.allocate(checked_multiply(training.micro_batch, size_of(DType::int64)),
                     loop_label(Holding::buffers, LoopTensor::labels));
}

HeldStorage WeighedLoss::make(std::int64_t bytes, Holding holding, LoopTensor tensor) {
  return recorder_.make(bytes, loop_label(holding, tensor));
}

// (batch["labels"] != ignore_index).sum(): a sum of flags is one of int64. num_tokens += it: the
// first is added to a number, the others in place.
void WeighedLoss::count_targets() {
  HeldStorage flags =
      make(labels_ * size_of(DType::boolean), Holding::temporaries, LoopTensor::targets);
  HeldStorage count = make(size_of(DType::int64), Holding::batch, LoopTensor::targets);
  recorder_.make_and_free(checked_multiply(labels_, size_of(DType::int64)),
                          loop_label(Holding::temporaries, LoopTensor::targets));
  flags.drop();
  count_ = std::move(count);
  if (!targets_.is_of_storage()) {
    targets_ = make(size_of(DType::int64), Holding::batch, LoopTensor::targets);
  }
  shifted_labels_.drop();
}

void WeighedLoss::add_loss() {
  if (losses_.is_of_storage()) return;
  losses_ = make(size_of(DType::fp32), Holding::activations, LoopTensor::reported_loss);
}

// scale_grads(model, 1 / num_tokens): the reciprocal of a tensor, times 1.
void WeighedLoss::scale_gradients() {
  if (!scales_) return;
  constexpr std::int64_t kNumber = size_of(DType::fp32);
  HeldStorage reciprocal = make(kNumber, Holding::temporaries, LoopTensor::targets);
  const HeldStorage factor = make(kNumber, Holding::temporaries, LoopTensor::targets);
  reciprocal.drop();
}

// running_loss.item() / num_tokens is a reciprocal's product too; log_dict names what it reports
// until the next one has its name.
void WeighedLoss::report(const HeldStorage& norm) {
  constexpr std::int64_t kNumber = size_of(DType::fp32);
  HeldVector reported;
  HeldStorage reciprocal = make(kNumber, Holding::temporaries, LoopTensor::reported_loss);
  reported.push_back(make(kNumber, Holding::temporaries, LoopTensor::reported_loss));
  reciprocal.drop();
  reported.push_back(make(kNumber, Holding::temporaries, LoopTensor::reported_loss));
  if (norm.is_of_storage()) reported.push_back(recorder_.share(norm.id()));
  reported_ = std::move(reported);
  losses_.drop();
  targets_.drop();
}

}  // namespace memest
