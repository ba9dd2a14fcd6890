#include "memory/loop/context_shares.hpp"

#include <variant>

#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

/// The size of Transformer.freqs_cis; 0 where it is not cut.
std::int64_t bytes_of_table(const Job& job) {
  const Implementation& implementation = job.training->implementation;
  const auto* decoder = std::get_if<DecoderSpec>(&job.model.architecture);
  const bool cuts = row_of(implementation.torchtitan).is_early;
  if (job.parallelism.context == 1 || decoder == nullptr || !cuts) return 0;
  const auto* attention = std::get_if<SoftmaxAttention>(&decoder->attention);
  return attention == nullptr
             ? 0
             : checked_multiply(job.training->seq_len, attention->head_dim * size_of(DType::fp32));
}

}  // namespace

ContextShares::ContextShares(const Job& job, Recorder& recorder)
    : recorder_(recorder),
      ranks_(job.parallelism.context),
      seq_len_(job.training->seq_len),
      table_bytes_(bytes_of_table(job)) {}

HeldStorage ContextShares::share_of(std::int64_t bytes, LoopTensor tensor) {
  const HeldStorage sorted = recorder_.make(bytes, loop_label(Holding::temporaries, tensor));
  return recorder_.make(bytes / ranks_, loop_label(Holding::batch, tensor));
}

void ContextShares::make(std::int64_t sequences) {
  const Label positions_label = loop_label(Holding::temporaries, LoopTensor::position_ids);
  const std::int64_t position_bytes = checked_multiply(seq_len_, size_of(DType::int32));
  const std::int64_t tokens = checked_multiply(sequences, seq_len_);
  HeldStorage positions;
  if (in_place()) {
    table_ = recorder_.make(table_bytes_, loop_label(Holding::batch, LoopTensor::rotations));
  } else {
    positions = recorder_.make(position_bytes, positions_label);
  }
  HeldStorage order = recorder_.make(position_bytes, positions_label);
  shares_[0] = share_of(checked_multiply(tokens, size_of(DType::int64)), LoopTensor::batch);
  shares_[1] = share_of(checked_multiply(tokens, size_of(DType::int64)), LoopTensor::labels);
  if (in_place()) {
    shares_[2] = share_of(table_bytes_, LoopTensor::rotations);
    order.drop();
    write_in_place();
  } else {
    shares_[2] =
        share_of(checked_multiply(tokens, size_of(DType::int32)), LoopTensor::position_ids);
  }
}

/// context_parallel: shard = shard.clone(); buffer.copy_(shard). The last clone has its name to the
/// end.
void ContextShares::write_in_place() {
  for (const HeldStorage& share : shares_) {
    last_copy_.drop();
    const std::int64_t bytes = recorder_.timeline().storages[share.id()].bytes;
    last_copy_ = recorder_.make(bytes, loop_label(Holding::batch, LoopTensor::rotations));
  }
}

void ContextShares::drop() {
  for (HeldStorage& share : shares_) share.drop();
  last_copy_.drop();
  table_.drop();
}

}  // namespace memest
