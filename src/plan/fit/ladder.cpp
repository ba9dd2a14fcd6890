#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/plan/fit.hpp"
#include "memest/plan/in_parallel.hpp"
#include "plan/fit/techniques.hpp"

namespace memest {
namespace {

/// Techniques that stand together at most.
constexpr std::size_t kMostTogether = 3;
/// As little recompute as fits is looked for among so many layers.
constexpr std::int64_t kMostSearched = 256;
/// Rungs that are built upon, of each number of techniques: those that take least memory.
constexpr std::size_t kBuiltUpon = 4;

using Used = std::vector<std::size_t>;  // sorted

bool is_beaten(const Rung& rung, const Rung& by) {
  if (!rung.step || !by.step) return false;
  const bool no_worse = by.taken <= rung.taken && *by.step <= *rung.step;
  return no_worse && (by.taken < rung.taken || *by.step < *rung.step);
}

class Ladder {
 public:
  explicit Ladder(const FitRequest& request) : request_(request) {
    answer_.techniques = techniques_for(request.job);
  }

  std::variant<FitLadder, Unavailable> build() && {
    const JobEstimate own = estimate_job(request_.job);
    if (const auto* why = std::get_if<Unavailable>(&own.memory)) return *why;
    answer_.capacity = std::get<MemoryAnswer>(own.memory).capacity.bytes;
    answer_.own = rung_of({}, own);
    add_least_recompute();
    try_all(singles());
    for (const bool with_caveat : {false, true}) {
      if (with_caveat && best_step()) break;
      for (std::size_t count = 2; count <= kMostTogether; ++count) {
        try_all(together(count, with_caveat));
      }
    }
    leave_out_idle();
    std::ranges::stable_sort(answer_.rungs, {}, [&](const Rung& rung) { return place_of(rung); });
    find_front();
    return std::move(answer_);
  }

 private:
  /// By what a reader looks for: it fits, trains the same, and is fast; else it takes little.
  using Place = std::tuple<bool, bool, double, Bytes, double>;
  [[nodiscard]] Place place_of(const Rung& rung) const {
    const bool fits = rung.verdict == Verdict::fits;
    const double step = rung.step ? rung.step->value() : std::numeric_limits<double>::infinity();
    return {!fits, fits && answer_.has_caveat(rung), fits ? step : 0.0, rung.taken, step};
  }

  static Rung rung_of(Used used, const JobEstimate& estimate) {
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    const BytesInterval taken = memory.of_capacity();
    Rung rung{std::move(used), memory.overall(), taken.expected, taken.low, taken.high, {}, {}};
    if (memory.host_need) rung.host = memory.host_need->of_node();
    if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) rung.step = time->step;
    return rung;
  }

  /// As little recompute as fits by itself: the first k layers where k - 1 are not enough.
  void add_least_recompute() {
    const std::int64_t layers = layers_of_stage(request_.job);
    const bool has_words = !recompute_first(request_.job, 1).change.empty();
    const bool recomputes = !std::holds_alternative<NoRecompute>(request_.job.recompute());
    const bool asks = answer_.own.verdict != Verdict::fits && has_words && !recomputes;
    if (!asks || layers < 2 || layers > kMostSearched) return;
    std::int64_t refused = 0;
    std::int64_t fitting = layers;  // that of every layer is a technique of its own
    if (!fits_with_first(fitting)) return;
    while (fitting - refused > 1) {
      const std::int64_t middle = refused + (fitting - refused) / 2;
      (fits_with_first(middle) ? fitting : refused) = middle;
    }
    Technique least = recompute_first(request_.job, fitting);
    const bool known = std::ranges::any_of(
        answer_.techniques, [&](const Technique& other) { return other.sets == least.sets; });
    if (fitting < layers && !known) answer_.techniques.push_back(std::move(least));
  }

  bool fits_with_first(std::int64_t layers) const {
    const Checked<Job> job = request_.read(recompute_first(request_.job, layers).sets);
    if (!job.ok()) return false;
    const JobEstimate estimate = estimate_job(job.value());
    const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
    return memory != nullptr && memory->overall() == Verdict::fits;
  }

  std::vector<Used> singles() const {
    std::vector<Used> list;
    for (std::size_t i = 0; i < answer_.techniques.size(); ++i) list.push_back({i});
    return list;
  }

  /// The least time of a step that fits and stays what it was.
  std::optional<Seconds> best_step() const {
    std::optional<Seconds> best;
    for (const Rung& rung : answer_.rungs) {
      if (rung.verdict != Verdict::fits || answer_.has_caveat(rung)) continue;
      const Seconds step = rung.step.value_or(Seconds());
      if (!best || step < *best) best = step;
    }
    return best;
  }

  /// So many techniques: one more on the rungs that do not fit yet, are no slower than what does,
  /// and take least. With a caveat of one of them, or of none.
  std::vector<Used> together(std::size_t count, bool with_caveat) const {
    const std::optional<Seconds> best = best_step();
    std::vector<const Rung*> base;
    for (const Rung& rung : answer_.rungs) {
      if (rung.techniques.size() != count - 1 || rung.verdict == Verdict::fits) continue;
      if (!with_caveat && answer_.has_caveat(rung)) continue;
      if (best && rung.step && *rung.step >= *best) continue;
      base.push_back(&rung);
    }
    std::stable_sort(base.begin(), base.end(), [](const Rung* left, const Rung* right) {
      return left->taken < right->taken;
    });
    if (base.size() > kBuiltUpon) base.resize(kBuiltUpon);
    std::set<Used> list;
    for (const Rung* rung : base) {
      for (std::size_t i = 0; i < answer_.techniques.size(); ++i) {
        const bool has = answer_.has_caveat(*rung) || !answer_.techniques[i].caveat.empty();
        if (has == with_caveat && goes_with(rung->techniques, i))
          list.insert(with(rung->techniques, i));
      }
    }
    return {list.begin(), list.end()};
  }

  static Used with(Used used, std::size_t technique) {
    used.insert(std::upper_bound(used.begin(), used.end(), technique), technique);
    return used;
  }

  bool goes_with(const Used& used, std::size_t technique) const {
    const bool alone = std::ranges::any_of(answer_.refused, [&](const RefusedTechnique& refused) {
      return refused.technique == technique;
    });
    return !alone && std::ranges::none_of(used, [&](std::size_t other) {
      return answer_.techniques[other].group == answer_.techniques[technique].group;
    });
  }

  Checked<Job> job_with(const Used& used) const {
    std::vector<std::string> sets;
    for (const std::size_t technique : used) {
      const auto& more = answer_.techniques[technique].sets;
      sets.insert(sets.end(), more.begin(), more.end());
    }
    return request_.read(sets);
  }

  /// Estimates them; those that cannot be are left out.
  void try_all(const std::vector<Used>& list) {
    std::vector<std::optional<Rung>> rungs(list.size());
    std::vector<std::string> reasons(list.size());
    in_parallel(list.size(), request_.threads, [&](std::size_t i) {
      const Checked<Job> job = job_with(list[i]);
      if (!job.ok()) {
        reasons[i] = job.diagnostics().front().message;
        return;
      }
      const JobEstimate estimate = estimate_job(job.value());
      if (const auto* why = std::get_if<Unavailable>(&estimate.memory)) {
        reasons[i] = why->sentence;
      } else {
        rungs[i] = rung_of(list[i], estimate);
      }
    });
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (rungs[i]) {
        answer_.rungs.push_back(*std::move(rungs[i]));
      } else if (list[i].size() == 1) {
        answer_.refused.push_back({list[i].front(), std::move(reasons[i])});
      }
    }
  }

  /// Leaves rungs out of which a technique does nothing: those without it take no more.
  void leave_out_idle() {
    const std::vector<Rung> all = answer_.rungs;
    std::erase_if(answer_.rungs, [&](const Rung& rung) {
      return std::ranges::any_of(all, [&](const Rung& less) {
        const bool is_part = less.techniques.size() < rung.techniques.size() &&
                             std::ranges::includes(rung.techniques, less.techniques);
        return is_part && less.taken <= rung.taken && less.step <= rung.step;
      });
    });
  }

  void find_front() {
    for (std::size_t i = 0; i < answer_.rungs.size(); ++i) {
      const Rung& rung = answer_.rungs[i];
      const auto beats = [&](const Rung& other) { return is_beaten(rung, other); };
      if (!rung.step || beats(answer_.own) || std::ranges::any_of(answer_.rungs, beats)) continue;
      answer_.front.push_back(i);
    }
    std::ranges::sort(answer_.front, [&](std::size_t left, std::size_t right) {
      return answer_.rungs[left].taken < answer_.rungs[right].taken;
    });
  }

  const FitRequest& request_;
  FitLadder answer_;
};

}  // namespace

std::size_t FitLadder::fitting() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rungs, [](const Rung& rung) { return rung.verdict == Verdict::fits; }));
}

bool FitLadder::has_caveat(const Rung& rung) const {
  return std::ranges::any_of(rung.techniques,
                             [&](std::size_t i) { return !techniques[i].caveat.empty(); });
}

std::variant<FitLadder, Unavailable> fit_ladder(const FitRequest& request) {
  return Ladder(request).build();
}

}  // namespace memest
