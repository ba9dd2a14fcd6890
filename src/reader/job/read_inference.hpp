// `inference` as an InferenceSpec.
#pragma once

#include <optional>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Nothing where a diagnostic says why. `model` is null where it could not be read.
std::optional<InferenceSpec> read_inference(const Value& inference, const ModelSpec* model,
                                            Diagnostics& diagnostics);

/// Inference runs on one GPU, and no training beside it: `root` is the spec that says so.
void check_inference_alone(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
