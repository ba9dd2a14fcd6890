#include "memest/plan/implementations.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "memest/plan/in_parallel.hpp"
#include "plan/search/front.hpp"
#include "plan/search/ranking.hpp"

namespace memest {
namespace {

/// GPU type and count of a row.
using RentedGpus = std::pair<const GpuSpec*, std::int64_t>;

RentedGpus rented_by(const PlanVerdict& row) { return {row.candidate.gpu, row.candidate.gpus}; }

class ImplementationComparison {
 public:
  ImplementationComparison(const PlanRequest& request,
                           const std::vector<ImplementationChoice>& choices)
      : request_(request), choices_(choices) {}

  ComparedPlans run() && {
    if (!find_base()) return std::move(result_);
    if (choices_.size() == 1 || !has_rows()) return std::move(result_);
    const RentedGpus lead = lead_of();
    compare_at(lead);
    const std::size_t winner = best_of(known_.at(lead));
    // Every choice is searched at one place only, and the winner of that place at all that are
    // shown.
    if (winner != base_) widen(winner);
    const RentedGpus last = lead_of();
    if (last != lead) compare_at(last);
    for (const auto& [choice, plan] : known_.at(last)) result_.compared.push_back({choice, plan});
    return std::move(result_);
  }

 private:
  using Known = std::map<std::size_t, std::variant<PlanVerdict, Unavailable>>;

  PlanAnswer& answer() { return result_.answer; }
  [[nodiscard]] bool has_rows() const {
    return !result_.answer.best.empty() || !result_.answer.refused.empty();
  }

  /// The first choice that answers at all; false: none does.
  bool find_base() {
    std::optional<PlanAnswer> first;
    for (std::size_t choice = 0; choice < choices_.size(); ++choice) {
      PlanAnswer found = searched(choice, request_);
      if (!std::holds_alternative<Unavailable>(found.unavailable)) {
        base_ = choice;
        answer() = std::move(found);
        return true;
      }
      if (!first) first = std::move(found);
    }
    answer() = *std::move(first);
    return false;
  }

  /// `request` under a choice's job, its rows pointing into the whole request's GPUs.
  PlanAnswer searched(std::size_t choice, PlanRequest request) const {
    const ImplementationChoice& chosen = choices_[choice];
    if (!chosen.job) {
      PlanAnswer refused;
      refused.unavailable = Unavailable{chosen.refusal};
      return refused;
    }
    request.job = *chosen.job;
    PlanAnswer found = search_plans(request);
    for (auto* rows : {&found.best, &found.refused, &found.front}) {
      for (PlanVerdict& row : *rows) {
        const auto gpu = std::ranges::find(request_.gpus, row.candidate.gpu->slug, &GpuSpec::slug);
        row.candidate.gpu = &*gpu;
        row.choice = choice;
      }
    }
    return found;
  }

  [[nodiscard]] RentedGpus lead_of() const {
    const PlanAnswer& answer = result_.answer;
    return rented_by(answer.best.empty() ? answer.refused.front() : answer.best.front());
  }

  /// Every choice there that is not known yet.
  void compare_at(const RentedGpus& place) {
    Known& known = known_[place];
    PlanRequest request = request_;
    request.gpus = {*place.first};
    request.counts = {place.second};
    request.finalists = std::min<std::size_t>(request_.finalists, 1);
    request.misses = std::min<std::size_t>(request_.misses, 1);
    request.front = false;
    request.threads = 1;
    std::vector<std::size_t> unknown;
    for (std::size_t choice = 0; choice < choices_.size(); ++choice) {
      if (!known.contains(choice)) unknown.push_back(choice);
    }
    std::vector<std::variant<PlanVerdict, Unavailable>> found(unknown.size());
    std::vector<std::size_t> candidates(unknown.size());
    in_parallel(unknown.size(), request_.threads, [&](std::size_t i) {
      found[i] = plan_at(unknown[i], place, request, candidates[i]);
    });
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      known.emplace(unknown[i], std::move(found[i]));
      answer().candidates += candidates[i];
    }
  }

  /// The row of the answer where the choice has one, else a search of its own.
  std::variant<PlanVerdict, Unavailable> plan_at(std::size_t choice, const RentedGpus& place,
                                                 const PlanRequest& request,
                                                 std::size_t& candidates) const {
    for (const auto* rows : {&result_.answer.best, &result_.answer.refused}) {
      for (const PlanVerdict& row : *rows) {
        if (row.choice == choice && rented_by(row) == place) return row;
      }
    }
    PlanAnswer found = searched(choice, request);
    candidates = found.candidates;
    if (const auto* reason = std::get_if<Unavailable>(&found.unavailable)) return *reason;
    std::vector<PlanVerdict>& rows = found.best.empty() ? found.refused : found.best;
    if (rows.empty()) return Unavailable{"nothing of the kind can be searched"};
    return std::move(rows.front());
  }

  /// The index of the best plan; the first among equals.
  [[nodiscard]] std::size_t best_of(const Known& known) const {
    std::size_t best = base_;
    const PlanVerdict* least = nullptr;
    for (const auto& [choice, plan] : known) {
      const auto* row = std::get_if<PlanVerdict>(&plan);
      // A reason beside a verdict that fits is a deadline that is missed.
      if (row == nullptr || row->verdict == Verdict::does_not_fit || !row->reason.empty()) continue;
      if (least != nullptr && !ranks_before(*row, *least, request_.objective)) continue;
      least = row;
      best = choice;
    }
    return best;
  }

  /// Rows that the choice answers better are its own.
  void widen(std::size_t choice) {
    PlanRequest request = request_;
    std::set<std::string> shown;
    const auto show = [&shown](const std::vector<PlanVerdict>& rows, std::size_t most) {
      for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
        shown.insert(rows[i].candidate.gpu->slug);
      }
    };
    show(answer().best, request_.finalists > 0 ? request_.finalists : answer().best.size());
    show(answer().refused, request_.misses);
    std::erase_if(request.gpus, [&](const GpuSpec& gpu) { return !shown.contains(gpu.slug); });
    PlanAnswer found = searched(choice, std::move(request));
    answer().candidates += found.candidates;
    for (PlanVerdict& row : found.best) replace(std::move(row));
    for (PlanVerdict& row : found.refused) come_nearer(std::move(row));
    std::ranges::stable_sort(answer().best, [&](const PlanVerdict& left, const PlanVerdict& right) {
      return ranks_before(left, right, request_.objective);
    });
    std::ranges::stable_sort(answer().refused, lacks_less);
    join_front(std::move(found.front));
  }

  void replace(PlanVerdict row) {
    PlanAnswer& all = answer();
    const auto same = [&row](const PlanVerdict& other) {
      return rented_by(other) == rented_by(row);
    };
    const auto better = std::ranges::find_if(all.best, same);
    if (better == all.best.end()) {
      std::erase_if(all.refused, same);
      all.best.push_back(std::move(row));
    } else if (ranks_before(row, *better, request_.objective)) {
      known_[rented_by(row)].insert_or_assign(better->choice, std::move(*better));
      *better = std::move(row);
    }
  }

  void come_nearer(PlanVerdict row) {
    const auto same = [&row](const PlanVerdict& other) {
      return rented_by(other) == rented_by(row);
    };
    const auto other = std::ranges::find_if(answer().refused, same);
    if (other != answer().refused.end() && lacks_less(row, *other)) *other = std::move(row);
  }

  void join_front(std::vector<PlanVerdict> more) {
    std::vector<PlanVerdict> all = std::move(answer().front);
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
    std::vector<Weighed> weighed;
    for (std::size_t i = 0; i < all.size(); ++i) {
      weighed.push_back({dollars_per_token(all[i]), -tokens_per_second(all[i]),
                         static_cast<double>(all[i].candidate.gpus), all[i].high / all[i].capacity,
                         0, i});
    }
    answer().front.clear();
    for (const Weighed& kept : pareto_front(std::move(weighed))) {
      answer().front.push_back(std::move(all[kept.candidate]));
    }
  }

  const PlanRequest& request_;
  const std::vector<ImplementationChoice>& choices_;
  std::size_t base_ = 0;
  std::map<RentedGpus, Known> known_;
  ComparedPlans result_;
};

}  // namespace

ComparedPlans compare_implementations(const PlanRequest& request,
                                      const std::vector<ImplementationChoice>& choices) {
  return ImplementationComparison(request, choices).run();
}

}  // namespace memest
