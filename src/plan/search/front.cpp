#include "plan/search/front.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "memest/plan/in_parallel.hpp"
#include "plan/search/ranking.hpp"
#include "plan/search/rows.hpp"

namespace memest {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

bool is_no_worse(const Weighed& left, const Weighed& right) {
  return left.dollars_per_token <= right.dollars_per_token &&
         left.seconds_per_token <= right.seconds_per_token && left.gpus <= right.gpus &&
         left.memory <= right.memory;
}

class FrontSearch {
 public:
  FrontSearch(const PlanRequest& request, const std::vector<Recompute>& recomputes,
              const std::vector<Group>& groups, Describer& describer)
      : request_(request),
        recomputes_(recomputes),
        groups_(groups),
        describer_(describer),
        rows_(request, recomputes, describer) {
    for (const Group& group : groups) known_.emplace_back(group.admitted.size());
  }

  /// A point that does not stand lets those in that it alone was better than.
  std::vector<PlanVerdict> answer() {
    std::vector<Weighed> front = pareto_front(weighed());
    while (follow(front)) front = pareto_front(weighed());
    std::vector<PlanVerdict> verdicts(front.size());
    in_parallel(front.size(), request_.threads, [&](std::size_t i) {
      const Group& group = groups_[front[i].group];
      const Evaluated& candidate = group.admitted[front[i].candidate];
      verdicts[i] = request_.finalists > 0 ? rows_.describe(candidate, group)
                                           : describer_.outline(candidate, group, recomputes_);
    });
    return once_more(std::move(verdicts));
  }

 private:
  /// A candidate's state after its replay.
  struct Known {
    bool followed = false;
    bool refused = false;
  };
  Known& known_at(const Weighed& point) { return known_[point.group][point.candidate]; }

  std::vector<Weighed> weighed() const {
    std::vector<Weighed> all;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      const Job job = describer_.job_of({.gpu = &request_.gpus[group.gpu], .gpus = group.gpus});
      const double dollars = job.hardware.price
                                 ? job.hardware.price->value() * static_cast<double>(group.gpus)
                                 : kUnknown;
      const Bytes capacity = capacity_of(job.hardware).bytes;
      for (std::size_t k = 0; k < group.admitted.size(); ++k) {
        const Evaluated& candidate = group.admitted[k];
        const bool closed = request_.finalists == 0;
        // An admitted candidate is on the front until its replay refuses it.
        const bool out = known_[i][k].refused || rows_.is_late(candidate) ||
                         std::isinf(candidate.seconds_per_token) ||
                         (closed && candidate.verdict != Verdict::fits);
        if (out) continue;
        all.push_back({dollars * candidate.seconds_per_token, candidate.seconds_per_token,
                       static_cast<double>(group.gpus), candidate.high / capacity, i, k});
      }
    }
    return all;
  }

  /// Replays what was not yet. True: something was refused.
  bool follow(const std::vector<Weighed>& front) {
    if (request_.finalists == 0) return false;
    std::atomic<bool> refused = false;
    in_parallel(front.size(), request_.threads, [&](std::size_t i) {
      Known& known = known_at(front[i]);
      if (std::exchange(known.followed, true)) return;
      const Group& group = groups_[front[i].group];
      const Job job = describer_.job_of(
          describer_.candidate_of(group.admitted[front[i].candidate], group, recomputes_));
      const auto memory = describer_.memory_of(job, Follow::to_first_refusal);
      known.refused = !memory || memory->verdict != Verdict::fits;
      if (known.refused) refused = true;
    });
    return refused;
  }

  /// Ranks by the times that are shown: the search's times are of schedules in closed form.
  static std::vector<PlanVerdict> once_more(std::vector<PlanVerdict> verdicts) {
    std::vector<Weighed> all;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      const PlanVerdict& plan = verdicts[i];
      const auto* cost = std::get_if<CostEstimate>(&plan.cost);
      all.push_back({cost != nullptr ? cost->per_billion_tokens.value() : kUnknown,
                     -tokens_per_second(plan), static_cast<double>(plan.candidate.gpus),
                     plan.high / plan.capacity, 0, i});
    }
    std::vector<PlanVerdict> kept;
    for (const Weighed& point : pareto_front(std::move(all))) {
      kept.push_back(std::move(verdicts[point.candidate]));
    }
    return kept;
  }

  const PlanRequest& request_;
  const std::vector<Recompute>& recomputes_;
  const std::vector<Group>& groups_;
  Describer& describer_;
  RowMaker rows_;
  std::vector<std::vector<Known>> known_;  ///< by group and candidate
};

}  // namespace

std::vector<PlanVerdict> front_of(const PlanRequest& request,
                                  const std::vector<Recompute>& recomputes,
                                  const std::vector<Group>& groups, Describer& describer) {
  return FrontSearch(request, recomputes, groups, describer).answer();
}

std::vector<Weighed> pareto_front(std::vector<Weighed> all) {
  // Whoever dominates another stands before it in this order.
  std::stable_sort(all.begin(), all.end(), [](const Weighed& left, const Weighed& right) {
    return std::tie(left.dollars_per_token, left.seconds_per_token, left.gpus, left.memory) <
           std::tie(right.dollars_per_token, right.seconds_per_token, right.gpus, right.memory);
  });
  std::vector<Weighed> front;
  for (const Weighed& candidate : all) {
    const bool dominated = std::any_of(front.begin(), front.end(), [&](const Weighed& other) {
      return is_no_worse(other, candidate);
    });
    if (!dominated) front.push_back(candidate);
  }
  return front;
}

}  // namespace memest
