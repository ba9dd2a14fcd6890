// Several texts as one tree. Every value keeps the place where it was written.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Mappings merge key by key; any other value of `over` replaces that of `base`.
void merge(Value& base, Value over);

/// The tree that `training.micro_batch=4` stands for, with places in the text of the override.
Checked<Value> parse_override(const SourceText& override_);

}  // namespace memest
