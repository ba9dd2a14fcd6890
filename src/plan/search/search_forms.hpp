// A search that takes up the closed forms of another.
#pragma once

#include "memest/plan/search.hpp"
#include "plan/layouts/layout_forms.hpp"
#include "plan/search/rows.hpp"

namespace memest {

/// search_plans() with `forms` of a job that differs from the request's in its micro-batch alone,
/// over the recomputes that both choose from.
PlanAnswer search_plans(const PlanRequest& request, LayoutForms& forms, Refusals refusals);

}  // namespace memest
