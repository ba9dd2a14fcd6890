// Files that an answer would be written over although the question reads them.
#pragma once

#include "cli/command.hpp"

namespace memest {

/// A mistake for each flag whose file is one that the command reads, by whatever name, or that of
/// another flag.
Diagnostics find_overwritten(const Command& command, const Arguments& arguments);

}  // namespace memest
