// Files that an answer would be written over although the question reads them, or somebody may have
// gone on writing them.
#pragma once

#include "cli/command.hpp"

namespace memest {

/// A mistake for each flag whose file is one that the command reads, by whatever name, or that of
/// another flag; and for an --output that exists, of a command that wants --force then.
Diagnostics find_overwritten(const Command& command, const Arguments& arguments);

}  // namespace memest
