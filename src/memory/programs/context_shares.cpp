#include "memory/programs/context_shares.hpp"

#include "memest/units/int128.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

struct SharedTensor {
  LoopTensor tensor = LoopTensor::batch;
  DType type = DType::int64;
};
constexpr std::array kParts = {SharedTensor{LoopTensor::batch, DType::int64},
                               SharedTensor{LoopTensor::labels, DType::int64},
                               SharedTensor{LoopTensor::position_ids, DType::int32}};

}  // namespace

ContextShares::ContextShares(const Job& job, Recorder& recorder)
    : recorder_(recorder), ranks_(job.parallelism.context), seq_len_(job.training->seq_len) {}

void ContextShares::make(std::int64_t sequences) {
  const Label positions_label = loop_label(Holding::temporaries, LoopTensor::position_ids);
  const std::int64_t position_bytes = checked_multiply(seq_len_, size_of(DType::int32));
  const HeldStorage positions = recorder_.make(position_bytes, positions_label);
  const HeldStorage order = recorder_.make(position_bytes, positions_label);
  const std::int64_t tokens = checked_multiply(sequences, seq_len_);
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const auto [tensor, type] = kParts[i];
    const HeldStorage sorted = recorder_.make(checked_multiply(tokens, size_of(type)),
                                              loop_label(Holding::temporaries, tensor));
    shares_[i] = recorder_.make(checked_multiply(tokens / ranks_, size_of(type)),
                                loop_label(Holding::batch, tensor));
  }
}

void ContextShares::drop() {
  for (HeldStorage& share : shares_) share.drop();
}

}  // namespace memest
