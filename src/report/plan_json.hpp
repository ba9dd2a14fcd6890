#pragma once

#include "json.hpp"
#include "memest/plan/search.hpp"

namespace memest {

/// The whole answer of `memest plan`.
Json plan_json(const PlanAnswer& answer, const Question& question);

}  // namespace memest
