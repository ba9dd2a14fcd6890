// Holds a tree against the description of its keys and says everything that is wrong: unknown keys,
// missing keys, wrong types, values out of bounds, and what is known but not available yet.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Checks the mapping `table` against `keys`. `name_span` is the key that holds it, for what is
/// missing in it.
void check_table(const Value& table, std::span<const Key> keys, const SourceSpan& name_span,
                 Diagnostics& diagnostics);

/// The table among `shapes` that the mapping was meant as: the one that knows most of its keys.
const KeyShape& choose_table(const Value& mapping, const Shapes& shapes);

/// The names of a folder of configs/: file names without `.yaml`, no profiles.
std::vector<std::string> catalog_names(std::string_view folder);

}  // namespace memest
