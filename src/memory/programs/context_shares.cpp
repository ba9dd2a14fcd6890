#include "memory/programs/context_shares.hpp"

#include <utility>

#include "memest/units/int128.hpp"

namespace memest {
namespace {

struct Part {
  LoopTensor tensor = LoopTensor::batch;
  DType type = DType::int64;
};
constexpr std::array kParts = {Part{LoopTensor::batch, DType::int64},
                               Part{LoopTensor::labels, DType::int64},
                               Part{LoopTensor::position_ids, DType::int32}};

}  // namespace

ContextShares::ContextShares(const Job& job, Recorder& recorder)
    : recorder_(recorder), ranks_(job.parallelism.context), seq_len_(job.training->seq_len) {}

StorageId ContextShares::number(std::int64_t count, DType type, LoopTensor tensor,
                                Holding holding) {
  Label label;
  label.holding = holding;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return recorder_.allocate(checked_multiply(count, size_of(type)), label);
}

void ContextShares::make(std::int64_t sequences) {
  const StorageId positions =
      number(seq_len_, DType::int32, LoopTensor::position_ids, Holding::temporaries);
  const StorageId order =
      number(seq_len_, DType::int32, LoopTensor::position_ids, Holding::temporaries);
  const std::int64_t tokens = checked_multiply(sequences, seq_len_);
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const auto [tensor, type] = kParts[i];
    const StorageId sorted = number(tokens, type, tensor, Holding::temporaries);
    shares_[i] = number(tokens / ranks_, type, tensor, Holding::batch);
    recorder_.release(sorted);
  }
  recorder_.release(order);
  recorder_.release(positions);
}

void ContextShares::drop() {
  for (StorageId& share : shares_) recorder_.release(std::exchange(share, kNoStorage));
}

}  // namespace memest
