// A whole model as one region of torch.compile: each block is a part of it.
#pragma once

#include <cstdint>

#include "graph/lower/compile/compiled_region.hpp"

namespace memest {

/// How the first layer comes by the result of `embedding`, whose micro-batch has so many sequences.
[[nodiscard]] RegionInput first_layer_input(const Block& embedding, std::int64_t micro_batch);

/// `embedding` as the part before a first layer that is given `first`; `tied`: the output head has
/// its table too.
[[nodiscard]] Block compiled_embedding(Block embedding, RegionInput first, bool tied);

/// `loss`, a mean over targets, as the part behind the logits: how many it is of is kept.
[[nodiscard]] Block compiled_loss(Block loss);

}  // namespace memest
