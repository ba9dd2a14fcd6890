#include "memest/graph/token_routing.hpp"

#include <algorithm>

namespace memest {
namespace {

/// The chance that `chosen` of `all` things, drawn without putting back, have none of `own`.
double chance_of_none(std::int64_t all, std::int64_t own, std::int64_t chosen) {
  double chance = 1;
  for (std::int64_t i = 0; i < chosen; ++i) {
    chance *= static_cast<double>(std::max<std::int64_t>(all - own - i, 0)) /
              static_cast<double>(all - i);
  }
  return chance;
}

double binomial(std::int64_t of, std::int64_t chosen) {
  if (chosen < 0 || chosen > of) return 0;
  double count = 1;
  for (std::int64_t i = 0; i < chosen; ++i) {
    count *= static_cast<double>(of - i) / static_cast<double>(i + 1);
  }
  return count;
}

}  // namespace

double ranks_reached(const TokenRouting& routing, std::int64_t ranks) {
  const std::int64_t of_group = routing.experts / routing.groups;
  const std::int64_t of_rank = routing.experts / ranks;
  const std::int64_t open = of_group * routing.groups_kept;  // experts that may be chosen
  // A rank has experts of one group, or several whole groups, of which some are kept.
  const std::int64_t own_groups = std::max<std::int64_t>(of_rank / of_group, 1);
  const double ways = binomial(routing.groups, routing.groups_kept);
  double missed = 0;
  for (std::int64_t kept = 0; kept <= own_groups; ++kept) {
    const double share = binomial(own_groups, kept) *
                         binomial(routing.groups - own_groups, routing.groups_kept - kept) / ways;
    if (share == 0) continue;
    missed += share * chance_of_none(open, kept * std::min(of_rank, of_group), routing.top_k);
  }
  return static_cast<double>(ranks) * (1 - missed);
}

}  // namespace memest
