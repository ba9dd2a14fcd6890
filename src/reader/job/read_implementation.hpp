// `implementation`: a framework, and the parts of it that the spec overrides.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/training.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// `written` is a name, a map, or null for the default: `plain` for a list of layers,
/// `transformers` otherwise.
Implementation read_implementation(const Value* written, const ModelSpec* model,
                                   Diagnostics& diagnostics);

}  // namespace memest
