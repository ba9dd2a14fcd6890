#include "plan/search/rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/layouts/refusal.hpp"

namespace memest {

bool RowMaker::is_late(const Evaluated& candidate) const {
  const std::optional<Goal>& goal = request_.goal;
  return goal && goal->within && candidate.seconds_per_token * goal->tokens > goal->within->value();
}

GroupRow RowMaker::outline(const Group& group) const {
  auto shown = group.admitted.begin();
  if (request_.finalists == 0) {
    // Admitted candidates are in the order of their time: the first that fits is the fastest.
    shown = std::ranges::find(group.admitted, Verdict::fits, &Evaluated::verdict);
    if (shown == group.admitted.end()) {
      shown = std::ranges::min_element(group.admitted, {}, &Evaluated::high);
    }
  }
  GroupRow row{.answers = shown != group.admitted.end(), .final = false, .verdict = {}};
  if (row.answers) {
    row.verdict = describer_.outline(*shown, group, recomputes_);
    row.verdict.rivals = rivals_of(*shown, group);
    if (is_late(*shown)) refuse_late(row);
  } else if (group.nearest) {
    row.verdict = describer_.outline(*group.nearest, group, recomputes_);
  } else {
    row = {.answers = false, .final = true, .verdict = describer_.refuse(group)};
  }
  return row;
}

/// Which of a group's candidates stand, one after the other.
class RowMaker::Walk {
 public:
  Walk(const RowMaker& rows, const Group& group) : rows_(rows), group_(group) {}

  /// Whether the candidate fits freely; else it may be kept as the pressed or the closest one.
  bool stands(const Evaluated& candidate) {
    Sizes& sizes = sizes_[{candidate.layout, candidate.recompute}];
    if (is_too_large(candidate, sizes)) return false;
    const bool described = rows_.refusals_ == Refusals::described;
    const Follow follow = described ? Follow::to_first_refusal : Follow::to_fit;
    const Job job = rows_.job_of(candidate, group_);
    const auto memory = rows_.describer_.memory_of(job, follow);
    if (!memory || memory->verdict == Verdict::does_not_fit) {
      sizes.too_large = candidate.batch.micro_batch;
      return false;
    }
    // A step that gives memory back in every iteration waits for cudaFree and cudaMalloc, which no
    // time law has.
    if (memory->fits_freely(capacity_of(job.hardware))) return true;
    const bool fits = memory->verdict == Verdict::fits;
    if (fits && pressed_ == nullptr) {
      pressed_ = &candidate;
    } else if (!fits && !described) {
      sizes.unsure.push_back(&candidate);
    } else if (!fits && (closest_ == nullptr || memory->high < closest_high_)) {
      closest_ = &candidate;
      closest_high_ = memory->high;
    }
    return false;
  }

  /// The first that fits only by giving memory back to the driver; null where none did.
  [[nodiscard]] const Evaluated* pressed() const { return pressed_; }
  /// The candidate too close to call that needs least, where refusals are described.
  [[nodiscard]] const Evaluated* closest() const { return closest_; }

 private:
  /// Micro-batches of one layout and recompute.
  struct Sizes {
    std::int64_t too_large = std::numeric_limits<std::int64_t>::max();  ///< from here on
    std::vector<const Evaluated*> unsure;  ///< that do not fit, perhaps not by far
  };

  /// A larger micro-batch of the same layout never needs less.
  bool is_too_large(const Evaluated& candidate, Sizes& sizes) {
    std::erase_if(sizes.unsure, [&](const Evaluated* other) {
      const std::int64_t micro_batch = other->batch.micro_batch;
      if (micro_batch > candidate.batch.micro_batch) return false;
      const auto memory =
          rows_.describer_.memory_of(rows_.job_of(*other, group_), Follow::to_first_refusal);
      if (!memory || memory->verdict == Verdict::does_not_fit) {
        sizes.too_large = std::min(sizes.too_large, micro_batch);
      }
      return true;
    });
    return candidate.batch.micro_batch >= sizes.too_large;
  }

  const RowMaker& rows_;
  const Group& group_;
  std::map<std::pair<Parallelism, std::size_t>, Sizes> sizes_;
  const Evaluated* pressed_ = nullptr;
  const Evaluated* closest_ = nullptr;
  Bytes closest_high_;
};

GroupRow RowMaker::replayed(const Group& group) const {
  Walk walk(*this, group);
  for (const Evaluated& candidate : group.admitted) {
    if (walk.stands(candidate)) return answer(candidate, group);
  }
  if (group.nearest && walk.pressed() == nullptr) {
    if (walk.stands(*group.nearest)) return answer(*group.nearest, group);
  }
  if (walk.pressed() != nullptr) return answer(*walk.pressed(), group);
  if (walk.closest() != nullptr) return answer(*walk.closest(), group);
  return refusal(group);
}

Job RowMaker::job_of(const Evaluated& candidate, const Group& group) const {
  return describer_.job_of(describer_.candidate_of(candidate, group, recomputes_));
}

GroupRow RowMaker::answer(const Evaluated& candidate, const Group& group) const {
  GroupRow row{.answers = true, .final = true, .verdict = describe(candidate, group)};
  row.verdict.rivals = rivals_of(candidate, group);
  if (is_late(candidate)) refuse_late(row);
  return row;
}

std::vector<Rival> RowMaker::rivals_of(const Evaluated& candidate, const Group& group) const {
  std::vector<Rival> rivals;
  if (!std::isfinite(candidate.seconds_per_token)) return rivals;
  // Admitted candidates are in the order of their time.
  for (const Evaluated& other : group.admitted) {
    if (rivals.size() == kRivals) break;
    const double slower = other.seconds_per_token / candidate.seconds_per_token - 1;
    if (other.number == candidate.number || other.verdict != Verdict::fits || slower < 0) continue;
    rivals.push_back({describer_.candidate_of(other, group, recomputes_), slower});
  }
  return rivals;
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
  row.verdict = refusals_ == Refusals::described ? describe(*least, group)
                                                 : describer_.outline(*least, group, recomputes_);
  return row;
}

PlanVerdict RowMaker::describe(const Evaluated& candidate, const Group& group) const {
  const auto memory = describer_.memory_of(job_of(candidate, group), Follow::all_ranks);
  return memory ? describer_.describe(candidate, group, recomputes_, *memory)
                : describer_.outline(candidate, group, recomputes_);
}

void RowMaker::refuse_late(GroupRow& row) const {
  row.answers = false;
  row.verdict.reason = lateness_of(row.verdict, *request_.goal);
}

}  // namespace memest
