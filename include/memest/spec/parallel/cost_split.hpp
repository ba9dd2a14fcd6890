// Stages of as equal a cost as it goes: nanotron's build_model (models/base.py) counts products'
// weights, layer by layer and the output head with them.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/decoder.hpp"
#include "memest/spec/parallel/parallelism.hpp"

namespace memest {

/// The layers of each stage of `layout`'s pipeline. A stage ends with the layer that takes the cost
/// so far past its part of the whole. Empty: there are none, a stage would have nothing to train,
/// or the head would not be in the last one.
std::vector<std::int64_t> stages_by_cost(const DecoderSpec& decoder, const Parallelism& layout);

/// The micro-batches that the engine of a pipeline so dealt takes at least: its 1F1B one less than
/// the pipeline has ranks.
std::int64_t least_micro_batches(const Parallelism& layout);

}  // namespace memest
