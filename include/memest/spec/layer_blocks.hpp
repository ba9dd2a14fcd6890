// Which blocks of a list of layers repeat the layers of another.
#pragma once

#include <cstddef>
#include <vector>

#include "memest/spec/model.hpp"

namespace memest {

/// Whether the blocks have the same layers, however often each repeats them.
bool have_same_layers(const LayerBlock& left, const LayerBlock& right);

/// How many of the blocks differ in their layers; `most` + 1 where they are more than that.
std::size_t count_different(const std::vector<LayerBlock>& blocks, std::size_t most);

}  // namespace memest
