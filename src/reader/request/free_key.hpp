// Keys that a search chooses although the spec writes them.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Takes the key out of the tree: `training.recompute`, `parallelism`. Keys that no search chooses,
/// and those that nobody wrote, are mistakes.
void free_key(Value& root, const SourceText& key, Diagnostics& diagnostics);

}  // namespace memest
