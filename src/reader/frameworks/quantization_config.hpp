// `quantization_config` of a Hugging Face config: the checkpoint's weights are codes.
#pragma once

#include <optional>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// How `config`'s weights are kept; none where they are whole, or by a method that is not followed,
/// of which a warning says so.
std::optional<QuantizedWeights> quantized_by(const Value& config, Diagnostics& diagnostics);

}  // namespace memest
