#include "rows.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "refusal.hpp"

namespace memest {

bool RowMaker::is_late(const Evaluated& candidate) const {
  const std::optional<Goal>& goal = request_.goal;
  return goal && goal->within && candidate.seconds_per_token * goal->tokens > goal->within->value();
}

GroupRow RowMaker::outline(const Group& group) const {
  auto shown = group.admitted.begin();
  if (request_.finalists == 0) {
    shown = std::ranges::find(group.admitted, Verdict::fits, &Evaluated::verdict);
    if (shown == group.admitted.end()) {
      shown = std::ranges::min_element(group.admitted, {}, &Evaluated::high);
    }
  }
  GroupRow row{.answers = shown != group.admitted.end(), .final = false, .verdict = {}};
  if (row.answers) {
    row.verdict = describer_.outline(*shown, group, recomputes_);
    if (is_late(*shown)) refuse_late(row);
  } else if (group.nearest) {
    row.verdict = describer_.outline(*group.nearest, group, recomputes_);
  } else {
    row = {.answers = false, .final = true, .verdict = describer_.refuse(group)};
  }
  return row;
}

GroupRow RowMaker::replayed(const Group& group) const {
  const Evaluated* pressed = nullptr;
  const Evaluated* closest = nullptr;
  Bytes closest_high;
  // A larger micro-batch of the same layout never needs less.
  std::map<std::pair<LayoutKey, std::size_t>, std::int64_t> too_large;
  const auto stands = [&](const Evaluated& candidate) {
    const auto [least, is_new] = too_large.try_emplace(
        {key_of(candidate.layout), candidate.recompute}, std::numeric_limits<std::int64_t>::max());
    if (candidate.batch.micro_batch >= least->second) return false;
    const Job job = describer_.job_of(describer_.candidate_of(candidate, group, recomputes_));
    const auto memory = describer_.memory_of(job, Follow::to_first_refusal);
    if (!memory || memory->verdict == Verdict::does_not_fit) {
      least->second = candidate.batch.micro_batch;
      return false;
    }
    if (memory->fits_freely(capacity_of(job.hardware))) return true;
    const bool fits = memory->verdict == Verdict::fits;
    if (fits && pressed == nullptr) {
      pressed = &candidate;
    } else if (!fits && (closest == nullptr || memory->high < closest_high)) {
      closest = &candidate;
      closest_high = memory->high;
    }
    return false;
  };
  for (const Evaluated& candidate : group.admitted) {
    if (stands(candidate)) return answer(candidate, group);
  }
  if (group.nearest && pressed == nullptr) {
    if (stands(*group.nearest)) return answer(*group.nearest, group);
  }
  if (pressed != nullptr) return answer(*pressed, group);
  if (closest != nullptr) return answer(*closest, group);
  return refusal(group);
}

GroupRow RowMaker::answer(const Evaluated& candidate, const Group& group) const {
  GroupRow row{.answers = true, .final = true, .verdict = describe(candidate, group)};
  if (is_late(candidate)) refuse_late(row);
  return row;
}

/// The candidate that needs least by the closed form, and how much that is by its replay.
GroupRow RowMaker::refusal(const Group& group) const {
  const Evaluated* least = group.nearest ? &*group.nearest : nullptr;
  for (const Evaluated& candidate : group.admitted) {
    if (least == nullptr || candidate.device < least->device) least = &candidate;
  }
  GroupRow row{.answers = false, .final = true, .verdict = {}};
  if (least == nullptr) {
    row.verdict = describer_.refuse(group);
    return row;
  }
  row.verdict = describe(*least, group);
  return row;
}

PlanVerdict RowMaker::describe(const Evaluated& candidate, const Group& group) const {
  const Job job = describer_.job_of(describer_.candidate_of(candidate, group, recomputes_));
  const auto memory = describer_.memory_of(job, Follow::all_ranks);
  return memory ? describer_.describe(candidate, group, recomputes_, *memory)
                : describer_.outline(candidate, group, recomputes_);
}

void RowMaker::refuse_late(GroupRow& row) const {
  row.answers = false;
  row.verdict.reason = lateness_of(row.verdict, *request_.goal);
}

}  // namespace memest
