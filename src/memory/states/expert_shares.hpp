// Effects of expert-parallel ranks on the shards of an optimizer: experts have fewer replicas, and
// an optimizer of their own.
#pragma once

#include <cstdint>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// A rank's share of `all` where the job divides that stage, `experts` of which are experts' that
/// other ranks have others of.
Expr share_with_experts(const Job& job, ZeroStage stage, const Expr& all, const Expr& experts);

/// unit_share() of experts' elements.
Expr unit_share_of_experts(const Job& job, const Expr& elements);

/// A rank's share of `all`, something like all that is stepped, `bytes` a parameter.
Expr optimizer_share(const Job& job, std::int64_t bytes, const Expr& all);

/// As above, while one optimizer steps: the larger of the experts' share and the rest's.
Expr larger_share(const Job& job, const Inventory& inventory, std::int64_t bytes, const Expr& all);

}  // namespace memest
