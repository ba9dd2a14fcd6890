#include "memory/megatron/megatron_batches.hpp"

#include <utility>
#include <variant>

#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {

/// The training program's data loader makes a mask of every sequence, which long sequences do
/// without; the library alone is given one for all.
MegatronBatches::MegatronBatches(const Job& job, Recorder& recorder)
    : recorder_(recorder),
      micro_steps_(job.training->gradient_accumulation),
      sequences_(job.training->micro_batch),
      seq_len_(job.training->seq_len / job.parallelism.context),
      stays_(job.training->implementation.cuda_graph.full_iteration),
      has_masks_(job.training->implementation.layers == LayerSpec::te &&
                 job.parallelism.context == 1) {}

HeldStorage MegatronBatches::of(std::int64_t elements, DType type, LoopTensor tensor) const {
  return recorder_.make(checked_multiply(elements, size_of(type)),
                        loop_label(Holding::batch, tensor),
                        stays_ ? Stream::load : Stream::compute);
}

MicroBatch MegatronBatches::make(HeldStorage& tokens, bool at_end) const {
  const std::int64_t count = checked_multiply(sequences_, seq_len_);
  tokens = of(count, DType::int64, LoopTensor::batch);
  MicroBatch batch;
  batch.labels = of(count, DType::int64, LoopTensor::labels);
  batch.loss_mask = of(count, DType::fp32, LoopTensor::loss_mask);
  // The loop expands one row over the sequences, of which a copy that stays has all.
  batch.positions = of(stays_ ? count : seq_len_, DType::int64, LoopTensor::position_ids);
  if (has_masks_ && at_end) {
    batch.attention_mask =
        of(checked_multiply(count, seq_len_), DType::boolean, LoopTensor::attention_mask);
  }
  return batch;
}

void MegatronBatches::stay(bool at_end) {
  if (!stays_ || !staying_.empty()) return;
  for (std::int64_t i = 0; i < micro_steps_; ++i) {
    Staying batch;
    batch.rest = make(batch.tokens, at_end);
    staying_.push_back(std::move(batch));
  }
}

MicroBatch MegatronBatches::next(HeldStorage& tokens, bool at_end) {
  if (!stays_) return make(tokens, at_end);
  const auto& [own_tokens, rest] = staying_[read_++ % staying_.size()];
  const auto name = [this](const HeldStorage& one) { return recorder_.share(one.id()); };
  tokens = name(own_tokens);
  return {name(rest.labels), name(rest.loss_mask), name(rest.positions), name(rest.attention_mask)};
}

bool keeps_attention_mask(const Recompute& recompute) {
  if (const auto* parts = std::get_if<SelectiveRecompute>(&recompute)) {
    return parts->attention_core;
  }
  return !std::holds_alternative<NoRecompute>(recompute);
}

}  // namespace memest
