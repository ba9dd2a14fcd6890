// Which tensors move to the host between the passes, by the rules of published systems.
#include <algorithm>
#include <set>

#include "memest/plan/schedule.hpp"
#include "plan/schedule/chain_writer.hpp"
#include "plan/schedule/fate_writer.hpp"
#include "plan/schedule/idle.hpp"

namespace memest {
namespace {

/// Bytes below which a copy is not worth its call (torchtune, OffloadActivations:
/// min_offload_size = 1024).
constexpr std::int64_t kLeastSwapped = 1024;

std::vector<std::uint32_t> swappable(const StepTensors& step) {
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < step.tensors.size(); ++i) {
    const StepTensor& tensor = step.tensors[i];
    if (!tensor.savers.empty() && tensor.bytes >= kLeastSwapped) list.push_back(i);
  }
  return list;
}

bool is_contraction_input(const StepTensors& step, std::uint32_t tensor) {
  const StepTensor& saved = step.tensors[tensor];
  return std::any_of(saved.savers.begin(), saved.savers.end(), [&](std::uint32_t op) {
    const StepOp& saver = step.ops[op];
    const bool reads =
        std::find(saver.reads.begin(), saver.reads.end(), tensor) != saver.reads.end();
    return reads && saver.op_class == OpClass::contraction;
  });
}

/// Operations of both passes between the forward's last use and the backward's first read.
std::size_t edge_length(const StepTensors& step, std::uint32_t tensor) {
  const StepTensor& saved = step.tensors[tensor];
  return 2 * step.ops.size() - 1 - saved.savers.back() - last_use_of(saved);
}

}  // namespace

std::vector<Fate> swap_long_edges(const ScheduledStep& step, std::int64_t budget) {
  const std::vector<std::uint32_t> all = swappable(step.step);
  std::set<std::size_t> distinct;
  for (const std::uint32_t tensor : all) distinct.insert(edge_length(step.step, tensor));
  const std::vector<std::size_t> lengths(distinct.begin(), distinct.end());
  const auto of_length = [&](std::size_t least) {
    std::vector<Fate> fates(step.step.tensors.size(), Fate::keep);
    for (const std::uint32_t tensor : all) {
      if (edge_length(step.step, tensor) >= least) fates[tensor] = Fate::swap;
    }
    return fates;
  };
  // The highest threshold that fits: lower ones swap more.
  std::size_t low = 0;
  std::size_t high = lengths.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (play_fates(step, of_length(lengths[middle]), budget).peak <= budget) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return of_length(lengths.empty() ? 0 : lengths[low == 0 ? 0 : low - 1]);
}

std::vector<Action> swap_contraction_inputs(const ScheduledStep& step, std::int64_t budget) {
  std::vector<Fate> fates(step.step.tensors.size(), Fate::keep);
  for (const std::uint32_t tensor : swappable(step.step)) {
    if (is_contraction_input(step.step, tensor)) fates[tensor] = Fate::swap;
  }
  return FateWriter(step, fates, budget, {SwapStart::under_pressure}).write().actions;
}

std::vector<Action> page_under_pressure(const ScheduledStep& step, std::int64_t budget,
                                        Paging paging) {
  const std::vector<Fate> fates(step.step.tensors.size(), Fate::swap);
  const SwapRule rule{SwapStart::under_pressure, paging == Paging::prefetched};
  return FateWriter(step, fates, budget, rule).write().actions;
}

std::vector<Fate> swap_around_peak(const ScheduledStep& step, std::int64_t budget) {
  std::vector<Fate> fates(step.step.tensors.size(), Fate::keep);
  const std::vector<std::uint32_t> all = swappable(step.step);
  const PassClock clock(step);
  for (;;) {
    const Played played = play_fates(step, fates, budget);
    if (played.peak <= budget) return fates;
    std::vector<std::uint32_t> idle;
    for (const std::uint32_t tensor : all) {
      const bool free = fates[tensor] == Fate::keep;
      if (free && is_idle_at(step.step, tensor, played.peak_at)) idle.push_back(tensor);
    }
    if (idle.empty()) return fates;
    const auto weight = [&](std::uint32_t tensor) {
      return static_cast<double>(step.step.tensors[tensor].bytes) * clock.idle_seconds(tensor);
    };
    std::stable_sort(idle.begin(), idle.end(), [&](std::uint32_t left, std::uint32_t right) {
      return weight(left) > weight(right);
    });
    std::int64_t excess = played.peak - budget;
    for (std::size_t i = 0; i < idle.size() && excess > 0; ++i) {
      fates[idle[i]] = Fate::swap;
      excess -= step.step.tensors[idle[i]].bytes;
    }
  }
}

std::vector<Fate> recompute_cheap(const ScheduledStep& step) {
  std::vector<Fate> fates(step.step.tensors.size(), Fate::keep);
  Remaking remaking(step.step);
  for (std::uint32_t i = 0; i < fates.size(); ++i) {
    if (is_cheap(step.step, i) && remaking.can_remake(fates, i)) fates[i] = Fate::recompute;
  }
  return fates;
}

std::vector<Fate> swap_contractions_recompute_rest(const ScheduledStep& step) {
  std::vector<Fate> fates = recompute_cheap(step);
  for (const std::uint32_t tensor : swappable(step.step)) {
    if (is_contraction_input(step.step, tensor)) fates[tensor] = Fate::swap;
  }
  return fates;
}

}  // namespace memest
