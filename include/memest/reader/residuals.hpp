// The file of margins, configs/residuals/memory.yaml, as a command writes it.
#pragma once

#include <string>
#include <vector>

#include "memest/spec/gpu/margin.hpp"

namespace memest {

/// The margins as that file; what is read back from it is what was written.
std::string write_residuals(const std::vector<Margin>& margins, const SourceMargins& published);

/// Those of runs that others published.
SourceMargins find_source_margins();

}  // namespace memest
