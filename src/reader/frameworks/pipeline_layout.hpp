// The layers of a pipeline's stages as a spec lists them: numbers, or Megatron's notation
// "Et*3|(tt|)*29|L".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Layers of each stage in the model's order; empty, with a diagnostic, where `written` is no such
/// list for so many ranks of a pipeline.
std::vector<std::int64_t> read_pipeline_layout(const Value& written, std::int64_t pipeline,
                                               Diagnostics& diagnostics);

/// Writes such stages in Megatron's notation, equal ones between the first and the last as one.
std::string pipeline_layout_text(const std::vector<std::int64_t>& stages, std::int64_t mtp_layers);

/// Holds a layout to the keys beside it and to the model's number of layers.
void check_pipeline_layout(const Value& parallelism, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
