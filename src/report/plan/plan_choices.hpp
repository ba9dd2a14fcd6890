// Implementations side by side, and what each asks of who uses it.
#pragma once

#include <string>

#include "memest/report/plan_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// "torchtitan+c": of a table's column.
std::string short_name_of(const ImplementationChoice& choice);

/// The flags that make a choice of the spec; empty where it is as written.
std::string flags_of(const ImplementationChoice& choice);

/// Nothing where one implementation alone answers.
void add_choices(Page& page, const PlanView& view);

/// Adds, for each other value of one setting, the change to the first row.
void add_alternatives(Page& page, const PlanAnswer& answer, const PlanView& view);

/// A list as the page's table; `candidate` writes a plan.
Json choices_json(const PlanView& view, Json (*candidate)(const PlanVerdict&));

}  // namespace memest
