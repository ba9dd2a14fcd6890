#include "spec/v_schedules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <utility>

namespace memest {
namespace {

/// Writes a rank's actions, each the next of its kind.
class VWriter {
 public:
  void forward(std::int64_t chunk) { actions_.push_back({true, next(forwards_, chunk), chunk}); }
  void backward(std::int64_t chunk) {
    actions_.push_back({false, next(backwards_, chunk), chunk, BackwardPart::whole});
  }
  /// The first part of a backward, whose second is to come.
  void inputs(std::int64_t chunk) {
    actions_.push_back({false, next(backwards_, chunk), chunk, BackwardPart::inputs});
    pending_.push_back(actions_.back());
    pending_.back().part = BackwardPart::weights;
  }
  /// The oldest second part, of `chunk` alone where one is named.
  void weights() { run_pending(pending_.begin()); }
  void weights(std::int64_t chunk) {
    run_pending(std::find_if(pending_.begin(), pending_.end(),
                             [chunk](const PipelineAction& one) { return one.chunk == chunk; }));
  }
  [[nodiscard]] std::int64_t forwards(std::int64_t chunk) const {
    return forwards_[static_cast<std::size_t>(chunk)];
  }
  std::vector<PipelineAction> take() && { return std::move(actions_); }

 private:
  using Counts = std::array<std::int64_t, 2>;
  static std::int64_t next(Counts& counts, std::int64_t chunk) {
    return counts[static_cast<std::size_t>(chunk)]++;
  }
  void run_pending(std::deque<PipelineAction>::iterator at) {
    if (at == pending_.end()) return;
    actions_.push_back(*at);
    pending_.erase(at);
  }

  std::vector<PipelineAction> actions_;
  std::deque<PipelineAction> pending_;
  Counts forwards_{};
  Counts backwards_{};
};

}  // namespace

/// A step of fewer micro-batches than fill the pipeline leaves out those that it does not have.
std::vector<PipelineAction> zbv_actions(const PipelinePlace& place, std::int64_t micro_batches) {
  // ScheduleZBVZeroBubble._calculate_single_rank_operations: n_micro = max(2·p - 1, n), and at the
  // end actions of micro-batches from n on are taken out.
  const std::int64_t filled = std::max(2 * place.ranks - 1, micro_batches);
  const std::int64_t behind = place.ranks - place.rank;
  VWriter rank;
  const auto run_back = [&rank](std::int64_t chunk) {
    rank.inputs(chunk);
    rank.weights(chunk);
  };
  for (std::int64_t i = 0; i < 2 * behind - 1; ++i) rank.forward(0);
  for (std::int64_t i = 0; i < place.rank; ++i) {
    rank.forward(1);
    rank.forward(0);
  }
  for (std::int64_t i = 0; i < behind; ++i) {
    rank.forward(1);
    run_back(1);
  }
  while (rank.forwards(1) < rank.forwards(0) || rank.forwards(0) < filled) {
    if (rank.forwards(0) < filled) rank.forward(0);
    run_back(0);
    rank.forward(1);
    run_back(1);
  }
  for (std::int64_t i = 0; i < place.rank; ++i) {
    rank.inputs(0);
    rank.inputs(1);
  }
  for (std::int64_t i = 0; i < behind; ++i) {
    rank.inputs(0);
    rank.weights(0);
  }
  for (std::int64_t i = 0; i < place.rank; ++i) rank.weights(1);
  for (std::int64_t i = 0; i < place.rank; ++i) rank.weights(0);
  std::vector<PipelineAction> actions = std::move(rank).take();
  std::erase_if(actions, [micro_batches](const PipelineAction& action) {
    return action.micro_batch >= micro_batches;
  });
  return actions;
}

std::vector<PipelineAction> dual_pipe_v_actions(const PipelinePlace& place,
                                                std::int64_t micro_batches) {
  // ScheduleDualPipeV._calculate_single_rank_operations, its eight steps in order.
  const std::int64_t behind = place.ranks - place.rank - 1;
  VWriter rank;
  for (std::int64_t i = 0; i < 2 * behind; ++i) rank.forward(0);
  for (std::int64_t i = 0; i < place.rank + 1; ++i) {
    rank.forward(0);
    rank.forward(1);
  }
  for (std::int64_t i = 0; i < behind; ++i) {
    rank.inputs(1);
    rank.weights();
    rank.forward(1);
  }
  for (std::int64_t i = 0; i < micro_batches - 2 * place.ranks + place.rank + 1; ++i) {
    rank.forward(0);
    rank.backward(1);
    rank.forward(1);
    rank.backward(0);
  }
  for (std::int64_t i = 0; i < behind; ++i) {
    rank.backward(1);
    rank.forward(1);
    rank.backward(0);
  }
  // From the middle on the weights wait. An even rank's middle lies between the chunks.
  const std::int64_t last = place.rank + 1;
  const auto run_back = [&](std::int64_t chunk, std::int64_t i) {
    const std::int64_t middle = last / 2 + (chunk == 1 && place.rank % 2 == 0 ? 1 : 0);
    if (i < middle) return rank.backward(chunk);
    rank.inputs(chunk);
  };
  for (std::int64_t i = 0; i < last; ++i) {
    run_back(1, i);
    run_back(0, i);
  }
  for (std::int64_t i = 0; i < behind; ++i) {
    rank.weights();
    rank.inputs(0);
  }
  for (std::int64_t i = 0; i < last; ++i) rank.weights();
  return std::move(rank).take();
}

}  // namespace memest
