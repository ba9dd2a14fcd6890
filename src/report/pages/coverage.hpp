// Sentences on an interval made of published runs.
#pragma once

#include <string>

#include "memest/spec/gpu/margin.hpp"

namespace memest {

/// "82 % of 292 published steps lie in such intervals, made without their framework, GPU or year".
/// The margin has runs.
std::string coverage_text(const SourceMargin& margin, const std::string& figures);

}  // namespace memest
