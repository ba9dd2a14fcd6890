// The Pareto front of a search.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/layouts/group_search.hpp"
#include "plan/search/describe.hpp"

namespace memest {

/// A candidate of a group by what plans are weighed with; less is better in each.
struct Weighed {
  double dollars_per_token = 0;  ///< infinite without a price
  double seconds_per_token = 0;
  double gpus = 0;
  double memory = 0;          ///< share of the capacity that may be in use
  std::size_t group = 0;      ///< index
  std::size_t candidate = 0;  ///< index into Group::admitted
};

/// Plans to which no other is equal or better in everything, the cheapest first; of equals the
/// first.
std::vector<Weighed> pareto_front(std::vector<Weighed> all);

/// PlanAnswer::front, of the candidates that are not too late for the deadline.
std::vector<PlanVerdict> front_of(const PlanRequest& request,
                                  const std::vector<Recompute>& recomputes,
                                  const std::vector<Group>& groups, Describer& describer);

}  // namespace memest
