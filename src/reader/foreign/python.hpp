// Configuration files in Python that assign literals to names, as nanoGPT's: no Python runs.
#pragma once

#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// A mapping of the names that the file's own level assigns: `n_layer = 12`. Numbers, strings,
/// True, False, None, and whole-number expressions of numbers and earlier names have their value;
/// any other expression stands there as it is written. Other statements are passed over; the last
/// assignment of a name stands.
Checked<Value> parse_python(const SourcePointer& source);

}  // namespace memest
