#include "memest/plan/search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/plan/in_parallel.hpp"
#include "memest/spec/framework.hpp"
#include "plan/layouts/followed.hpp"
#include "plan/layouts/group_search.hpp"
#include "plan/layouts/refusal.hpp"
#include "plan/search/describe.hpp"
#include "plan/search/front.hpp"
#include "plan/search/ranking.hpp"
#include "plan/search/rows.hpp"
#include "plan/search/search_forms.hpp"

namespace memest {
namespace {

constexpr const char* kTooLate = "too slow for the deadline";

class PlanSearch {
 public:
  /// `forms`: null where the search makes its own.
  PlanSearch(const PlanRequest& request, LayoutForms* forms, Refusals refusals)
      : request_(request),
        recomputes_(recompute_choices(request.job)),
        forms_(forms != nullptr ? *forms : own_forms_.emplace(request.job, recomputes_)),
        times_(request.job, recomputes_),
        describer_(request),
        row_maker_(request, recomputes_, describer_, refusals) {
    for (std::size_t i = 0; i < request.gpus.size(); ++i) devices_.push_back(device_of(i));
  }

  PlanAnswer answer() {
    search_groups();
    count_candidates();
    if (answer_.candidates == 0 && lacks_graphs()) return std::move(answer_);
    add_rows();
    if (request_.front) answer_.front = front_of(request_, recomputes_, groups_, describer_);
    return std::move(answer_);
  }

 private:
  /// Laws are of a GPU type; whether links between nodes are known matters only beyond one.
  TimedDevice device_of(std::size_t index) {
    TimedDevice device;
    device.of = {&request_.gpus[index], device_class_of(request_.gpus[index])};
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
      for (const std::int64_t count : request_.counts) tasks.emplace_back(gpu, count);
    }
    std::vector<std::size_t> order(tasks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
      return tasks[left].second > tasks[right].second;
    });
    groups_.resize(tasks.size());
    const SearchSpace space{
        request_, recomputes_, forms_, times_,
        [this](Evaluated& candidate, const Group& group) { return follow(candidate, group); }};
    const char* const only = only_alone(request_.job);
    in_parallel(tasks.size(), request_.threads, [&](std::size_t i) {
      const auto [gpu, count] = tasks[order[i]];
      Group& group = groups_[order[i]];
      if (count > 1 && only != nullptr) {
        group.gpu = gpu;
        group.gpus = count;
        group.unavailable = Unavailable{only};
      } else {
        group = search_group(space, devices_[gpu], count);
      }
    });
  }

  /// FollowCandidate: as `estimate` answers for the candidate.
  std::optional<Unavailable> follow(Evaluated& candidate, const Group& group) {
    const Job job = describer_.job_of(describer_.candidate_of(candidate, group, recomputes_));
    const auto memory = describer_.memory_of(job, Follow::to_first_refusal);
    if (!memory) return beyond_the_formulas(job);
    candidate.verdict = memory->verdict;
    candidate.device = memory->device;
    candidate.low = memory->low;
    candidate.high = memory->high;
    return std::nullopt;
  }

  void count_candidates() {
    std::map<std::string, std::size_t> reasons;
    for (Group& group : groups_) {
      answer_.candidates += group.candidates;
      count_late(group);
      for (const auto& [reason, count] : group.refused) reasons[reason] += count;
    }
    for (const auto& [reason, count] : reasons) answer_.reasons.push_back({reason, count});
    std::stable_sort(answer_.reasons.begin(), answer_.reasons.end(),
                     [](const RefusedCandidates& left, const RefusedCandidates& right) {
                       return left.candidates > right.candidates;
                     });
  }

  void count_late(Group& group) const {
    const auto late = std::ranges::count_if(group.admitted, [this](const Evaluated& candidate) {
      return row_maker_.is_late(candidate);
    });
    if (late > 0) group.refused[kTooLate] += static_cast<std::size_t>(late);
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

  /// A row that does not stand falls behind others, so they are replayed until enough of the first
  /// are.
  void add_rows() {
    rows_.resize(groups_.size());
    in_parallel(rows_.size(), request_.threads,
                [&](std::size_t i) { rows_[i] = row_maker_.outline(groups_[i]); });
    std::vector<std::size_t> open = rows_to_replay();
    while (!open.empty()) {
      in_parallel(open.size(), request_.threads,
                  [&](std::size_t i) { rows_[open[i]] = row_maker_.replayed(groups_[open[i]]); });
      open = rows_to_replay();
    }
    for (const std::size_t i : ranked(true)) answer_.best.push_back(std::move(rows_[i].verdict));
    for (const std::size_t i : ranked(false)) {
      answer_.refused.push_back(std::move(rows_[i].verdict));
    }
  }

  std::vector<std::size_t> rows_to_replay() const {
    std::vector<std::size_t> open;
    const auto add = [&](const std::vector<std::size_t>& order, std::size_t most) {
      for (std::size_t i = 0; i < std::min(order.size(), most); ++i) {
        if (!rows_[order[i]].final) open.push_back(order[i]);
      }
    };
    add(ranked(true), request_.finalists);
    add(ranked(false), request_.misses);
    return open;
  }

  /// The rows that answer, or those that refuse: the best, or what lacks least, first.
  std::vector<std::size_t> ranked(bool answers) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].answers == answers) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](std::size_t left, std::size_t right) {
      if (answers) return rank_of(rows_[left]) < rank_of(rows_[right]);
      return lacks_less(rows_[left].verdict, rows_[right].verdict);
    });
    return order;
  }

  /// A row that is still open is taken for what it may become at best.
  [[nodiscard]] std::tuple<bool, double, double, double> rank_of(const GroupRow& row) const {
    const PlanVerdict& verdict = row.verdict;
    const bool open = request_.finalists > 0 && !row.final;
    return {verdict.verdict != Verdict::fits && !open, measure_of(verdict, request_.objective),
            dollars_per_token(verdict), -tokens_per_second(verdict)};
  }

  const PlanRequest& request_;
  std::vector<Recompute> recomputes_;
  std::optional<LayoutForms> own_forms_;
  LayoutForms& forms_;
  LayoutTimes times_;
  Describer describer_;
  RowMaker row_maker_;
  std::vector<TimedDevice> devices_;
  std::vector<Group> groups_;
  std::vector<GroupRow> rows_;  ///< by group
  PlanAnswer answer_;
};

/// Why nothing of the kind can be searched.
std::optional<Unavailable> refusal_of(const PlanRequest& request) {
  if (!request.job.training) {
    return Unavailable{request.job.inference ? "plans of inference are not available yet: `memest "
                                               "estimate --gpu` answers for one GPU"
                                             : "the spec describes a model without training"};
  }
  auto reason = beyond_the_closed_form(request.job);
  if (reason && !is_followed(request.job, request.job.parallelism)) return reason;
  const bool alone = std::ranges::find(request.counts, 1) != request.counts.end();
  const char* const only = only_alone(request.job);
  if (only != nullptr && !alone) return Unavailable{only};
  return std::nullopt;
}

PlanAnswer answer_of(const PlanRequest& request, LayoutForms* forms, Refusals refusals) {
  if (auto reason = refusal_of(request)) {
    PlanAnswer answer;
    answer.unavailable = *std::move(reason);
    return answer;
  }
  return PlanSearch(request, forms, refusals).answer();
}

}  // namespace

PlanAnswer search_plans(const PlanRequest& request) {
  return answer_of(request, nullptr, Refusals::described);
}

PlanAnswer search_plans(const PlanRequest& request, LayoutForms& forms, Refusals refusals) {
  return answer_of(request, &forms, refusals);
}

}  // namespace memest
