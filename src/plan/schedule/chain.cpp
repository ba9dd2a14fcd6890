#include <algorithm>
#include <cstddef>
#include <utility>

#include "memest/plan/schedule.hpp"
#include "plan/schedule/chain_writer.hpp"

namespace memest {
namespace {

/// A place between two operations that a single tensor passes.
struct Cut {
  std::uint32_t op = 0;  ///< the first behind it
  std::uint32_t tensor = 0;
};

std::vector<Cut> cuts_of(const StepTensors& step) {
  // A tensor passes the places behind its maker, up to its last use. Sums of indices name the one
  // that passes alone.
  std::vector<std::int64_t> count(step.ops.size() + 1, 0);
  std::vector<std::int64_t> sum(step.ops.size() + 1, 0);
  for (std::uint32_t i = 0; i < step.tensors.size(); ++i) {
    const StepTensor& tensor = step.tensors[i];
    const std::uint32_t from = tensor.makers.front() + 1;
    const std::uint32_t to = last_use_of(tensor) + 1;
    ++count[from];
    --count[to];
    sum[from] += i;
    sum[to] -= i;
  }
  std::vector<Cut> cuts;
  for (std::uint32_t op = 1; op < step.ops.size(); ++op) {
    count[op] += count[op - 1];
    sum[op] += sum[op - 1];
    if (count[op] != 1) continue;
    const auto tensor = static_cast<std::uint32_t>(sum[op]);
    // Behind a cut it is what it stays: an operation that changes it in place belongs before.
    if (step.tensors[tensor].makers.back() < op) cuts.push_back({op, tensor});
  }
  return cuts;
}

bool is_between_blocks(const StepTensors& step, const Cut& cut) {
  return step.ops[cut.op].instance != step.ops[cut.op - 1].instance;
}

/// Leaves one cut of each tensor, between blocks where there is one: what lies between two of them
/// are views.
void keep_one_of_tensor(const StepTensors& step, std::vector<Cut>& cuts) {
  std::vector<Cut> kept;
  for (const Cut& cut : cuts) {
    if (kept.empty() || kept.back().tensor != cut.tensor) {
      kept.push_back(cut);
    } else if (is_between_blocks(step, cut) && !is_between_blocks(step, kept.back())) {
      kept.back() = cut;
    }
  }
  cuts = std::move(kept);
}

/// Cuts inside of blocks go first, then every second one.
void thin_out(const StepTensors& step, std::size_t most, std::vector<Cut>& cuts) {
  if (cuts.size() < most) return;
  std::erase_if(cuts, [&](const Cut& cut) { return !is_between_blocks(step, cut); });
  while (cuts.size() >= most) {
    for (std::size_t i = 0; i < cuts.size(); ++i)
      cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

std::vector<ChainStage> chain_of(const StepTensors& step, std::size_t most) {
  std::vector<Cut> cuts = cuts_of(step);
  keep_one_of_tensor(step, cuts);
  thin_out(step, most, cuts);
  std::vector<ChainStage> chain;
  ChainStage next;
  for (const Cut& cut : cuts) {
    next.end = cut.op;
    chain.push_back(next);
    next = {cut.op, 0, cut.tensor};
  }
  next.end = static_cast<std::uint32_t>(step.ops.size());
  chain.push_back(next);
  for (ChainStage& stage : chain) {
    const auto begin = step.ops.begin() + stage.begin;
    const auto end = step.ops.begin() + stage.end;
    stage.is_layer = std::all_of(begin, end, [](const StepOp& op) { return op.in_layer; });
  }
  return chain;
}

}  // namespace memest
