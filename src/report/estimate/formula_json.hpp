// A number's formula as a tree, for programs.
#pragma once

#include "memest/report/explain_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// Writes the tree of `row` under "tree": operations with what they are `of`, over whole numbers,
/// letters with their meaning and value, and other numbers by name. Null where the formula is
/// words.
void put_tree(Json& json, const Explanation& row);

}  // namespace memest
