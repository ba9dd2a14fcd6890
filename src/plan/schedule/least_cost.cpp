// Keep, move or recompute, for each tensor what costs least.
#include <algorithm>
#include <array>
#include <utility>

#include "memest/plan/schedule.hpp"
#include "plan/schedule/fate_writer.hpp"
#include "plan/schedule/idle.hpp"

namespace memest {
namespace {

/// Schedules that a search plays at most.
constexpr std::size_t kMostTries = 256;

/// Better: within the budget, then faster, then lower.
bool is_better(const Played& played, const Played& than, std::int64_t budget) {
  const bool fits = played.peak <= budget;
  const bool other_fits = than.peak <= budget;
  if (fits != other_fits) return fits;
  if (!fits) return played.peak < than.peak;
  return std::pair(played.seconds, played.peak) < std::pair(than.seconds, than.peak);
}

class Search {
 public:
  Search(const ScheduledStep& step, std::int64_t budget)
      : step_(step), budget_(budget), remaking_(step.step) {}

  std::vector<Fate> run() && {
    best_.assign(step_.step.tensors.size(), Fate::keep);
    played_ = play_fates(step_, best_, budget_);
    try_fates(swap_long_edges(step_, budget_));
    try_fates(swap_around_peak(step_, budget_));
    try_fates(recompute_cheap(step_));
    try_fates(swap_contractions_recompute_rest(step_));
    try_fates(cheapest_around_peak());
    while (tries_ < kMostTries && improve_together()) continue;
    while (tries_ < kMostTries && improve_one_by_one()) continue;
    return std::move(best_);
  }

 private:
  bool try_fates(std::vector<Fate> fates) {
    ++tries_;
    const Played played = play_fates(step_, fates, budget_);
    if (!is_better(played, played_, budget_)) return false;
    best_ = std::move(fates);
    played_ = played;
    return true;
  }

  /// Until the peak is within the budget: of what lies idle there, what costs least a byte. Copies
  /// cost nothing as long as the passes last longer than all of them.
  [[nodiscard]] std::vector<Fate> cheapest_around_peak() {
    std::vector<Fate> fates(best_.size(), Fate::keep);
    double copies = 0;
    for (;;) {
      const Played played = play_fates(step_, fates, budget_);
      ++tries_;
      if (played.peak <= budget_ || tries_ >= kMostTries) return fates;
      std::int64_t excess = played.peak - budget_;
      for (const Change& change : changes_at(played.peak_at, fates, copies)) {
        if (excess <= 0) break;
        const bool can = change.fate == Fate::swap || remaking_.can_remake(fates, change.tensor);
        if (fates[change.tensor] != Fate::keep || !can) continue;
        fates[change.tensor] = change.fate;
        if (change.fate == Fate::swap) copies += step_.out[change.tensor];
        excess -= step_.step.tensors[change.tensor].bytes;
      }
      if (excess == played.peak - budget_) return fates;
    }
  }

  struct Change {
    std::uint32_t tensor = 0;
    Fate fate = Fate::keep;
    double cost = 0;  ///< seconds a byte
  };

  [[nodiscard]] std::vector<Change> changes_at(std::size_t pass, const std::vector<Fate>& fates,
                                               double copies) const {
    double passes = 0;
    for (const double seconds : step_.forward) passes += seconds;
    std::vector<Change> changes;
    for (std::uint32_t i = 0; i < fates.size(); ++i) {
      if (fates[i] != Fate::keep || !is_idle_at(step_.step, i, pass)) continue;
      const auto bytes =
          static_cast<double>(std::max<std::int64_t>(1, step_.step.tensors[i].bytes));
      double again = 0;
      for (const std::uint32_t op : step_.step.tensors[i].makers) again += step_.forward[op];
      changes.push_back({i, Fate::recompute, again / bytes});
      const double exposed = copies + step_.out[i] < passes ? 0 : step_.out[i] + step_.in[i];
      changes.push_back({i, Fate::swap, exposed / bytes});
    }
    std::stable_sort(changes.begin(), changes.end(), [](const Change& left, const Change& right) {
      return left.cost < right.cost;
    });
    return changes;
  }

  /// Whether every tensor of Fate::recompute can be made again.
  [[nodiscard]] bool holds(const std::vector<Fate>& fates) {
    for (std::uint32_t i = 0; i < fates.size(); ++i) {
      if (fates[i] == Fate::recompute && !remaking_.can_remake(fates, i)) return false;
    }
    return true;
  }

  /// Changes the fate of one tensor in all equal layers.
  bool improve_together() {
    bool improved = false;
    for (const std::vector<std::uint32_t>& alike : alike_tensors()) {
      improved = change_fate(alike) || improved;
    }
    return improved;
  }

  bool improve_one_by_one() {
    bool improved = false;
    for (const std::uint32_t tensor : by_size()) {
      improved = change_fate(std::array{tensor}) || improved;
    }
    return improved;
  }

  bool change_fate(std::span<const std::uint32_t> tensors) {
    for (const Fate fate : {Fate::keep, Fate::swap, Fate::recompute}) {
      if (tries_ >= kMostTries) return false;
      std::vector<Fate> fates = best_;
      for (const std::uint32_t tensor : tensors) fates[tensor] = fate;
      if (fates != best_ && holds(fates) && try_fates(std::move(fates))) return true;
    }
    return false;
  }

  [[nodiscard]] std::vector<std::uint32_t> by_size() const {
    std::vector<std::uint32_t> list;
    for (std::uint32_t i = 0; i < best_.size(); ++i) {
      if (!step_.step.tensors[i].savers.empty()) list.push_back(i);
    }
    std::stable_sort(list.begin(), list.end(), [&](std::uint32_t left, std::uint32_t right) {
      return step_.step.tensors[left].bytes > step_.step.tensors[right].bytes;
    });
    return list;
  }

  [[nodiscard]] std::vector<std::vector<std::uint32_t>> alike_tensors() const {
    const auto kind_of = [&](std::uint32_t tensor) {
      const StepTensor& kept = step_.step.tensors[tensor];
      return std::pair(step_.step.ops[kept.makers.front()].block, kept.tensor);
    };
    std::vector<std::uint32_t> list = by_size();
    std::stable_sort(list.begin(), list.end(), [&](std::uint32_t left, std::uint32_t right) {
      return kind_of(left) < kind_of(right);
    });
    std::vector<std::vector<std::uint32_t>> alike;
    for (const std::uint32_t tensor : list) {
      if (alike.empty() || kind_of(alike.back().front()) != kind_of(tensor)) alike.emplace_back();
      alike.back().push_back(tensor);
    }
    return alike;
  }

  const ScheduledStep& step_;
  std::int64_t budget_;
  Remaking remaking_;
  std::vector<Fate> best_;
  Played played_;
  std::size_t tries_ = 0;
};

}  // namespace

std::vector<Fate> least_cost_fates(const ScheduledStep& step, std::int64_t budget) {
  return Search(step, budget).run();
}

}  // namespace memest
