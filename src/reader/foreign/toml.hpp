// TOML by toml++, as the tree that the readers walk. The library ends here.
#pragma once

#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Parses a TOML document (1.0). Tables keep the order of the file.
Checked<Value> parse_toml(const SourcePointer& source);

}  // namespace memest
