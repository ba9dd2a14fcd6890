// A search's row for each GPU type and count: the fastest candidate that stands, or why none
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memest/plan/search.hpp"
#include "plan/layouts/group_search.hpp"
#include "plan/search/describe.hpp"

namespace memest {

struct GroupRow {
  bool answers = false;  ///< false: a refusal
  bool final = false;    ///< replayed as far as it can be
  PlanVerdict verdict;
};

/// Several threads may ask at once.
/// How a row reports that none of its group's candidates stands.
enum class Refusals : std::uint8_t {
  described,  ///< what the least of them needs by its replay, and what would help
  outlined    ///< no more than that
};

class RowMaker {
 public:
  /// All outlive this.
  RowMaker(const PlanRequest& request, const std::vector<Recompute>& recomputes,
           Describer& describer, Refusals refusals = Refusals::described)
      : request_(request), recomputes_(recomputes), describer_(describer), refusals_(refusals) {}

  /// The fastest candidate that the closed form does not refuse; without finalists the fastest that
  /// it says fits, or of those that are too close to call the one that needs least.
  [[nodiscard]] GroupRow outline(const Group& group) const;
  /// The fastest candidate that fits as `estimate` answers for it. One that fits only by giving
  /// memory back to the driver is taken where no other does; one that is too close to call where
  /// none fits.
  [[nodiscard]] GroupRow replayed(const Group& group) const;

  /// The candidate with all that `estimate` answers for its memory.
  [[nodiscard]] PlanVerdict describe(const Evaluated& candidate, const Group& group) const;
  [[nodiscard]] bool is_late(const Evaluated& candidate) const;

 private:
  class Walk;

  [[nodiscard]] Job job_of(const Evaluated& candidate, const Group& group) const;
  [[nodiscard]] GroupRow answer(const Evaluated& candidate, const Group& group) const;
  [[nodiscard]] std::vector<Rival> rivals_of(const Evaluated& candidate, const Group& group) const;
  [[nodiscard]] GroupRow refusal(const Group& group) const;
  void refuse_late(GroupRow& row) const;

  const PlanRequest& request_;
  const std::vector<Recompute>& recomputes_;
  Describer& describer_;
  Refusals refusals_;
};

}  // namespace memest
