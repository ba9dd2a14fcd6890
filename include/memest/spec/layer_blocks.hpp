// Which blocks of a list of layers repeat the layers of another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/spec/model.hpp"

namespace memest {

/// Whether the blocks have the same layers, however often each repeats them.
bool have_same_layers(const LayerBlock& left, const LayerBlock& right);

/// How many of the blocks differ in their layers; `most` + 1 where they are more than that.
std::size_t count_different(const std::vector<LayerBlock>& blocks, std::size_t most);

/// Whether the blocks of such a list can be recomputed, each in a checkpoint: a net of images
/// checkpoints several layers together, none that stands alone.
bool is_checkpointable(const LayerBlock& block, bool images);

/// How many layers of the model can be, counted as they run; none where it is of another kind.
std::optional<std::int64_t> checkpointable_layers(const ModelSpec& model);

}  // namespace memest
