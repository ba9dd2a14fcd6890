// Transfers and counts of the training loop before a forward.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/programs/loop.hpp"

namespace memest {
namespace {

/// train.py's estimate_loss() takes the mean of each over many batches, which make equal events.
constexpr int kEvaluatedSets = 2;
/// Batches that wait one by one; those behind them are one storage.
constexpr std::int64_t kMostBatches = 1024;

}  // namespace

void TrainingLoop::send_batch(std::uint16_t number) {
  recorder_.begin(Phase::batch, number);
  if (!habits_.fetches_ahead) {
    if (habits_.step_is_function) {
      // The list of the step's batches keeps the inputs; the labels' name is taken.
      if (!batches_.empty()) recorder_.release(std::exchange(batches_.back().labels, kNoStorage));
      batches_.push_back(next_batch());
    } else {
      drop(std::exchange(batches_, {next_batch()}));
    }
  } else if (number == 1) {
    load_step();
  }
  recorder_.end();
}

/// Where the labels are the token ids themselves they are sent a second time, and dropped.
TrainingLoop::Batch TrainingLoop::next_batch() {
  const std::int64_t bytes = checked_multiply(order_.batch_bytes(), shares_.ranks());
  Batch batch{make(bytes, Holding::batch, LoopTensor::batch), kNoStorage};
  if (habits_.sends_next_batch || habits_.sends_labels) {
    batch.labels = make(bytes, Holding::batch, LoopTensor::labels);
  } else if (training_.loss == TrainingLoss::cross_entropy && order_.batch_is_token_ids()) {
    recorder_.release(make(bytes, Holding::batch, LoopTensor::batch_copy));
  }
  return batch;
}

/// train.py's estimate_loss(): an answer and its batch live until the next ones take their names.
void TrainingLoop::evaluate() {
  Batch batch;
  StorageId logits = kNoStorage;
  StorageId loss = kNoStorage;
  for (int set = 0; set < kEvaluatedSets; ++set) {
    drop({std::exchange(batch, next_batch())});
    engine_.evaluate(batch.inputs, batch.labels);
    recorder_.release(std::exchange(logits, engine_.logits()));
    recorder_.release(std::exchange(loss, engine_.loss()));
    engine_.end_autocast();
  }
  drop({batch});
  recorder_.release(logits);
  recorder_.release(loss);
}

/// The step before lets its batches go when those of this one are here and counted.
void TrainingLoop::load_step() {
  const std::int64_t bytes = order_.batch_bytes();
  const std::int64_t count = std::min(training_.gradient_accumulation, kMostBatches);
  const std::int64_t behind = training_.gradient_accumulation - count;
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < count; ++i) {
    const StorageId inputs = make(bytes, Holding::batch, LoopTensor::batch);
    batches.push_back({inputs, make(bytes, Holding::batch, LoopTensor::labels)});
  }
  batches.push_back(
      {make(checked_multiply(behind, 2 * bytes), Holding::batch, LoopTensor::batch), kNoStorage});
  StorageId targets = kNoStorage;
  for (std::int64_t i = 0; i < count; ++i) targets = count_targets(targets);
  if (ranks_ > 1) targets = sum_over_ranks(targets);
  drop(std::exchange(batches_, std::move(batches)));
  recorder_.release(std::exchange(targets_, targets));
}

/// sum((labels != -100).sum() for labels in the step): a sum of flags is one of int64.
StorageId TrainingLoop::count_targets(StorageId so_far) {
  const auto temporary = [this](std::int64_t bytes) {
    return make(bytes, Holding::temporaries, LoopTensor::targets);
  };
  const StorageId counted = temporary(counted_labels_ * size_of(DType::boolean));
  const StorageId number = temporary(size_of(DType::int64));
  recorder_.release(temporary(checked_multiply(counted_labels_, size_of(DType::int64))));
  recorder_.release(counted);
  const StorageId sum = make(size_of(DType::int64), Holding::batch, LoopTensor::targets);
  recorder_.release(number);
  recorder_.release(so_far);
  return sum;
}

/// Trainer.get_batch_samples: accelerator.gather(num_items_in_batch).sum(), of a copy with one
/// dimension.
StorageId TrainingLoop::sum_over_ranks(StorageId targets) {
  const auto numbers = [this](std::int64_t count) {
    return make(checked_multiply(count, size_of(DType::int64)), Holding::batch,
                LoopTensor::targets);
  };
  const StorageId copy = numbers(1);
  const StorageId gathered = numbers(ranks_);
  recorder_.release(copy);
  const StorageId sum = numbers(1);
  recorder_.release(gathered);
  recorder_.release(targets);
  return sum;
}

}  // namespace memest
