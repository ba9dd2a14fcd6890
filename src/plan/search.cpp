#include "memest/plan/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "describe.hpp"
#include "front.hpp"
#include "group_search.hpp"
#include "in_parallel.hpp"
#include "memest/diag/expect.hpp"

namespace memest {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr const char* kTooLate = "too slow for the deadline";

/// Faster candidates of a group that are too close to call, which a replay may yet let through.
constexpr std::size_t kMostReplays = 3;

double dollars_per_token(const PlanVerdict& verdict) {
  const auto* cost = std::get_if<CostEstimate>(&verdict.cost);
  return cost != nullptr ? cost->per_billion_tokens.value() : kUnknown;
}

double tokens_per_second(const PlanVerdict& verdict) {
  const auto* time = std::get_if<TimeEstimate>(&verdict.time);
  if (time == nullptr) return -kUnknown;
  return time->tokens_per_second_per_gpu * static_cast<double>(verdict.candidate.gpus);
}

class PlanSearch {
 public:
  explicit PlanSearch(const PlanRequest& request)
      : request_(request),
        recomputes_(recompute_choices(request.job)),
        forms_(request.job, recomputes_),
        times_(request.job, recomputes_),
        describer_(request) {
    for (std::size_t i = 0; i < request.gpus.size(); ++i) devices_.push_back(device_of(i));
  }

  PlanAnswer answer() {
    search_groups();
    count_candidates();
    if (answer_.candidates == 0 && lacks_graphs()) return std::move(answer_);
    add_rows();
    rank();
    replay_finalists();
    rank();
    add_front();
    return std::move(answer_);
  }

 private:
  /// Laws are of a GPU type; whether links between nodes are known matters only beyond one.
  TimedDevice device_of(std::size_t index) {
    TimedDevice device;
    device.of = {&request_.gpus[index], class_of(request_.gpus[index])};
    device.index = index;
    Job job = request_.job;
    job.hardware.gpu = request_.gpus[index];
    job.hardware.count = 1;
    job.parallelism = Parallelism();
    if (!std::holds_alternative<GpuLaws>(laws_of(job))) return device;
    device.laws = std::make_unique<GpuLaws>(request_.gpus[index]);
    device.links = std::make_unique<Links>(*device.laws, job.hardware);
    return device;
  }

  /// Many GPUs have many layouts: those first, so that no thread is left with one at the end.
  void search_groups() {
    std::vector<std::pair<std::size_t, std::int64_t>> tasks;
    for (std::size_t gpu = 0; gpu < request_.gpus.size(); ++gpu) {
      for (const std::int64_t count : request_.counts) {
        if (request_.job.model.adapter && count > 1) continue;  // answered on one GPU only
        tasks.emplace_back(gpu, count);
      }
    }
    std::vector<std::size_t> order(tasks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
      return tasks[left].second > tasks[right].second;
    });
    groups_.resize(tasks.size());
    const SearchSpace space{request_, recomputes_, forms_, times_};
    in_parallel(tasks.size(), request_.threads, [&](std::size_t i) {
      const auto [gpu, count] = tasks[order[i]];
      groups_[order[i]] = search_group(space, devices_[gpu], count);
    });
  }

  void count_candidates() {
    std::map<std::string, std::size_t> reasons;
    for (Group& group : groups_) {
      answer_.candidates += group.candidates;
      drop_late(group);
      for (const auto& [reason, count] : group.refused) reasons[reason] += count;
    }
    for (const auto& [reason, count] : reasons) answer_.reasons.push_back({reason, count});
    std::stable_sort(answer_.reasons.begin(), answer_.reasons.end(),
                     [](const RefusedCandidates& left, const RefusedCandidates& right) {
                       return left.candidates > right.candidates;
                     });
  }

  [[nodiscard]] bool is_late(const Evaluated& candidate) const {
    return request_.deadline && candidate.seconds_per_token * request_.deadline->tokens >
                                    request_.deadline->within.value();
  }

  void drop_late(Group& group) const {
    const auto late = [this](const Evaluated& candidate) { return is_late(candidate); };
    group.refused[kTooLate] += std::erase_if(group.front, late);
    if (group.refused[kTooLate] == 0) group.refused.erase(kTooLate);
  }

  bool lacks_graphs() {
    for (const Group& group : groups_) {
      if (const auto* reason = std::get_if<Unavailable>(&group.unavailable)) {
        answer_.unavailable = *reason;
        return true;
      }
    }
    return false;
  }

  void add_rows() {
    std::vector<Row> rows(groups_.size());
    in_parallel(rows.size(), request_.threads,
                [&](std::size_t i) { rows[i] = row_of(groups_[i]); });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      group_of_row_.emplace(std::pair(groups_[i].gpu, groups_[i].gpus), &groups_[i]);
      (rows[i].answers ? answer_.best : answer_.refused).push_back(std::move(rows[i].verdict));
    }
  }

  /// What a group says: an answer, or the nearest miss.
  struct Row {
    bool answers = false;
    PlanVerdict verdict;
  };
  Row row_of(const Group& group) {
    const auto describe = [&](const Evaluated& candidate) {
      return describer_.describe(candidate, group, recomputes_);
    };
    if (group.best && !is_late(*group.best)) return {true, describe(*group.best)};
    if (group.best) {
      Row late{false, describe(*group.best)};
      refuse_late(late.verdict);
      return late;
    }
    if (!group.close.empty()) {
      return {true, describe(*std::ranges::min_element(group.close, {}, &Evaluated::high))};
    }
    if (group.nearest) return {false, describe(*group.nearest)};
    return {false, describer_.refuse(group)};
  }

  void refuse_late(PlanVerdict& verdict) const {
    constexpr double kSecondsOfDay = 86400;
    const double days = request_.deadline->tokens / tokens_per_second(verdict) / kSecondsOfDay;
    verdict.reason = "takes " + std::to_string(static_cast<std::int64_t>(std::ceil(days))) +
                     " days for the tokens, longer than allowed";
  }

  void rank() {
    const auto key = [this](const PlanVerdict& verdict) {
      const double free = 1 - verdict.high / verdict.capacity;
      const auto gpus = static_cast<double>(verdict.candidate.gpus);
      const double first = [&] {
        switch (request_.objective) {
          case Objective::money:
            return dollars_per_token(verdict);
          case Objective::time:
            return -tokens_per_second(verdict);
          case Objective::memory:
            return -free;
          case Objective::gpus:
            return gpus;
        }
        unreachable("every objective has its measure");
      }();
      return std::tuple(verdict.verdict != Verdict::fits, first, dollars_per_token(verdict),
                        -tokens_per_second(verdict));
    };
    std::stable_sort(
        answer_.best.begin(), answer_.best.end(),
        [&](const PlanVerdict& left, const PlanVerdict& right) { return key(left) < key(right); });
  }

  /// A replay knows what the closed form's interval must leave open: the fastest candidate that
  /// runs takes the row.
  void replay_finalists() {
    const std::size_t finalists = std::min(request_.finalists, answer_.best.size());
    in_parallel(finalists, request_.threads, [&](std::size_t i) {
      PlanVerdict& row = answer_.best[i];
      const Group& group = *group_of_row_.at(
          {static_cast<std::size_t>(row.candidate.gpu - request_.gpus.data()), row.candidate.gpus});
      row = replayed_row(row, group);
    });
  }

  PlanVerdict replayed_row(const PlanVerdict& row, const Group& group) {
    std::size_t replays = 0;
    for (const Evaluated& candidate : group.close) {
      const bool slower =
          group.best && candidate.seconds_per_token >= group.best->seconds_per_token;
      if (slower || replays == kMostReplays || is_late(candidate)) break;
      ++replays;
      const auto verdict = describer_.replay(describer_.describe(candidate, group, recomputes_));
      if (!verdict) break;
      // What fits only by giving memory back to the driver and asking again is no plan.
      if (verdict->verdict != Verdict::fits || verdict->high > verdict->capacity) continue;
      PlanVerdict winner = *verdict;
      winner.levers.clear();
      return winner;
    }
    const auto verdict = describer_.replay(row);
    const bool runs = verdict && verdict->verdict == Verdict::fits;
    return runs && verdict->high <= verdict->capacity ? *verdict : row;
  }

  void add_front() {
    std::vector<Weighed> all;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Group& group = groups_[i];
      const GpuSpec& gpu = request_.gpus[group.gpu];
      const Job job = describer_.job_of({.gpu = &gpu, .gpus = group.gpus});
      const double dollars = job.hardware.price
                                 ? job.hardware.price->value() * static_cast<double>(group.gpus)
                                 : kUnknown;
      const Bytes capacity = capacity_of(job.hardware).bytes;
      for (std::size_t k = 0; k < group.front.size(); ++k) {
        const Evaluated& candidate = group.front[k];
        if (std::isinf(candidate.seconds_per_token)) continue;
        all.push_back({dollars * candidate.seconds_per_token, candidate.seconds_per_token,
                       static_cast<double>(group.gpus), candidate.high / capacity, i, k});
      }
    }
    const std::vector<Weighed> front = pareto_front(std::move(all));
    std::vector<PlanVerdict> outlines(front.size());
    in_parallel(front.size(), request_.threads, [&](std::size_t i) {
      const Group& group = groups_[front[i].group];
      outlines[i] = describer_.outline(group.front[front[i].candidate], group, recomputes_);
    });
    keep_front(std::move(outlines));
  }

  /// Once more by the times that are shown: those of the search are of schedules in closed form.
  void keep_front(std::vector<PlanVerdict> outlines) {
    std::vector<Weighed> all;
    for (std::size_t i = 0; i < outlines.size(); ++i) {
      const PlanVerdict& plan = outlines[i];
      all.push_back({dollars_per_token(plan), -tokens_per_second(plan),
                     static_cast<double>(plan.candidate.gpus), plan.high / plan.capacity, 0, i});
    }
    for (const Weighed& kept : pareto_front(std::move(all))) {
      answer_.front.push_back(std::move(outlines[kept.candidate]));
    }
  }

  const PlanRequest& request_;
  std::vector<Recompute> recomputes_;
  LayoutForms forms_;
  LayoutTimes times_;
  Describer describer_;
  std::vector<TimedDevice> devices_;
  std::vector<Group> groups_;
  std::map<std::pair<std::size_t, std::int64_t>, const Group*> group_of_row_;
  PlanAnswer answer_;
};

/// Why nothing of the kind can be searched.
std::optional<Unavailable> refusal_of(const PlanRequest& request) {
  if (!request.job.training) {
    return Unavailable{request.job.inference ? "plans of inference are not available yet: `memest "
                                               "estimate --gpu` answers for one GPU"
                                             : "the spec describes a model without training"};
  }
  if (auto reason = beyond_the_closed_form(request.job)) return reason;
  const bool alone = std::ranges::find(request.counts, 1) != request.counts.end();
  if (request.job.model.adapter && !alone) {
    return Unavailable{"adapters trained on several GPUs are not available yet"};
  }
  return std::nullopt;
}

}  // namespace

PlanAnswer search_plans(const PlanRequest& request) {
  if (auto reason = refusal_of(request)) {
    PlanAnswer answer;
    answer.unavailable = *std::move(reason);
    return answer;
  }
  return PlanSearch(request).answer();
}

}  // namespace memest
