// Transfers and counts of the training loop before a forward.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "memest/spec/framework.hpp"
#include "memest/units/int128.hpp"
#include "memory/loop/loop.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// train.py's estimate_loss() takes the mean of each over many batches, which make equal events.
constexpr int kEvaluatedSets = 2;
/// Batches that wait one by one; those behind them are one storage.
constexpr std::int64_t kMostBatches = 1024;

}  // namespace

/// A float where one rank trains alone; else the sum is read back.
void TrainingLoop::send_targets() {
  recorder_.begin(Phase::batch);
  targets_ = make(size_of(DType::int64), Holding::batch, LoopTensor::targets);
  if (sums_targets_) {
    recorder_.make_and_free(size_of(DType::int64),
                            loop_label(Holding::temporaries, LoopTensor::targets));
  } else {
    float_targets_ = make(size_of(DType::fp32), Holding::batch, LoopTensor::targets);
  }
  recorder_.end();
}

void TrainingLoop::send_batch(std::uint16_t number) {
  recorder_.begin(Phase::batch, number);
  if (!habits_.fetches_ahead) {
    if (habits_.generates_batches) {
      if (number == 1 || weighed_) drop_in_order(batches_);
      name_batch();
      if (weighed_) weighed_->count_targets();
    } else if (habits_.step_is_function) {
      // The list of the step's batches keeps the inputs; the labels' name is taken.
      if (!batches_.empty()) batches_.back().labels.drop();
      batches_.push_back(next_batch());
    } else {
      name_batch();
    }
  } else if (number == 1) {
    load_step();
  }
  recorder_.end();
}

/// Tensors that the model reads beside labels and masks.
TrainingLoop::Batch TrainingLoop::next_inputs() {
  const std::int64_t bytes = checked_multiply(order_.batch_bytes(), shares_.ranks());
  Batch batch;
  batch.inputs = make(bytes, Holding::batch, LoopTensor::batch);
  if (order_.image_bytes() > 0) {
    batch.images = make(order_.image_bytes(), Holding::batch, LoopTensor::images);
  }
  if (order_.grid_bytes() > 0) {
    batch.grids = make(order_.grid_bytes(), Holding::batch, LoopTensor::images);
  }
  if (order_.reads_token_types()) batch.types = make(bytes, Holding::batch, LoopTensor::batch);
  return batch;
}

/// DataCollatorForLanguageModeling of trl 1.16, torch_call: position_ids, cu_seq_lens_q,
/// cu_seq_lens_k and seq_idx, the last three int32.
HeldVector TrainingLoop::next_documents() {
  constexpr std::int64_t kNumber = size_of(DType::int32);
  const std::int64_t tokens = order_.batch_bytes() / size_of(DType::int64);
  const std::int64_t documents =
      checked_multiply(training_.micro_batch, training_.padding_free->documents);
  HeldVector parts;
  parts.push_back(make(order_.batch_bytes(), Holding::batch, LoopTensor::position_ids));
  if (!row_of(training_.implementation.loop).sends_documents) return parts;
  for (const std::int64_t numbers : {documents + 1, documents + 1, tokens}) {
    parts.push_back(make(kNumber * numbers, Holding::batch, LoopTensor::documents));
  }
  return parts;
}

/// Where the labels are the token ids themselves they are sent a second time, and dropped.
TrainingLoop::Batch TrainingLoop::next_batch() {
  const std::int64_t bytes = checked_multiply(order_.batch_bytes(), shares_.ranks());
  Batch batch = next_inputs();
  if (habits_.sends_next_batch || habits_.sends_labels) {
    batch.labels = make(bytes, Holding::batch, LoopTensor::labels);
  } else if (order_.label_bytes() > 0) {
    batch.labels = make(checked_multiply(order_.label_bytes(), shares_.ranks()), Holding::batch,
                        LoopTensor::labels);
  } else if (training_.loss == TrainingLoss::cross_entropy && order_.batch_is_token_ids()) {
    recorder_.make_and_free(bytes, loop_label(Holding::batch, LoopTensor::batch_copy));
  }
  // litgpt/data/base.py, _sft_collate_fn: token_counts, raw and with the prompt's template.
  for (int i = 0; i < 2 && habits_.sends_token_counts; ++i) {
    batch.counts.push_back(make(checked_multiply(training_.micro_batch, size_of(DType::int64)),
                                Holding::batch, LoopTensor::targets));
  }
  return batch;
}

/// One name for all batches: the last one goes when the next is there.
void TrainingLoop::name_batch() {
  Batch next = next_batch();
  drop_in_order(batches_);
  batches_.push_back(std::move(next));
}

/// train.py's estimate_loss(): an answer and its batch live until the next ones take their names.
void TrainingLoop::evaluate() {
  Batch batch;
  HeldStorage logits;
  HeldStorage loss;
  for (int set = 0; set < kEvaluatedSets; ++set) {
    rename(batch, next_batch());
    if (validation_) {
      const StorageId hidden = engine_.evaluate_to_last(batch.inputs.id(), batch.labels.id());
      logits = validation_->answer(recorder_.adopt(hidden));
      engine_.end_autocast();
      validation_->take_loss();
      continue;
    }
    engine_.evaluate(batch.inputs.id(), batch.labels.id());
    logits = recorder_.adopt(engine_.logits());
    loss = recorder_.adopt(engine_.loss());
    engine_.end_autocast();
  }
  rename(batch, {});
  logits.drop();
}

/// The step before lets its batches go when those of this one are here and counted.
void TrainingLoop::load_step() {
  const std::int64_t bytes = order_.batch_bytes();
  const std::int64_t count = std::min(training_.gradient_accumulation, kMostBatches);
  const std::int64_t behind = training_.gradient_accumulation - count;
  const bool joins = training_.padding_free.has_value();
  const bool sends_mask = row_of(training_.implementation.loop).passes_token_mask && !joins;
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < count; ++i) {
    Batch& batch = batches.emplace_back(next_inputs());
    batch.labels = make(bytes, Holding::batch, LoopTensor::labels);
    if (sends_mask) batch.mask = make(bytes, Holding::batch, LoopTensor::attention_mask);
    if (joins) batch.documents = next_documents();
  }
  // Position ids are as large as the mask, which joined sequences do without; beside them are
  // numbers of 4 bytes.
  const std::int64_t tensors = sends_mask || joins ? 3 : 2;
  const bool sends_documents = joins && row_of(training_.implementation.loop).sends_documents;
  const std::int64_t of_batch = tensors * bytes + (sends_documents ? bytes / 2 : 0);
  batches.emplace_back().inputs =
      make(checked_multiply(behind, of_batch), Holding::batch, LoopTensor::batch);
  HeldStorage targets;
  for (std::int64_t i = 0; i < count && !prefers(); ++i) {
    targets = count_targets(std::move(targets));
  }
  if (ranks_ > 1 && !prefers()) targets = sum_over_ranks(std::move(targets));
  batches_.swap(batches);
  drop_in_order(batches);
  targets_ = std::move(targets);
}

/// sum((labels != -100).sum() for labels in the step): a sum of flags is one of int64.
HeldStorage TrainingLoop::count_targets(HeldStorage so_far) {
  const Label temporary = loop_label(Holding::temporaries, LoopTensor::targets);
  HeldStorage counted = recorder_.make(counted_labels_ * size_of(DType::boolean), temporary);
  HeldStorage number = recorder_.make(size_of(DType::int64), temporary);
  recorder_.make_and_free(checked_multiply(counted_labels_, size_of(DType::int64)), temporary);
  counted.drop();
  HeldStorage sum = make(size_of(DType::int64), Holding::batch, LoopTensor::targets);
  number.drop();
  so_far.drop();
  return sum;
}

/// Trainer.get_batch_samples: accelerator.gather(num_items_in_batch).sum(), of a copy with one
/// dimension.
HeldStorage TrainingLoop::sum_over_ranks(HeldStorage targets) {
  const auto numbers = [this](std::int64_t count) {
    return make(checked_multiply(count, size_of(DType::int64)), Holding::batch,
                LoopTensor::targets);
  };
  HeldStorage copy = numbers(1);
  HeldStorage gathered = numbers(ranks_);
  copy.drop();
  HeldStorage sum = numbers(1);
  gathered.drop();
  targets.drop();
  return sum;
}

}  // namespace memest
