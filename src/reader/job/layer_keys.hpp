// One layer of a list from its keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "memest/spec/layers.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The layer `word: keys` in a place where `given` comes: sizes that are left out are `given`'s.
/// Composite layers are not.
PlainLayer leaf_layer(std::string_view word, const Value& keys, const Features& given);

/// Whether the layer takes rows of features alone, images alone, or either.
enum class LayerInput : std::uint8_t { rows, images, either };
LayerInput input_of(const PlainLayer& layer);

/// Features or channels that the layer's own sizes say it takes; 0 where it takes any.
std::int64_t width_taken(const PlainLayer& layer);

/// Whether the layer, or one within it, has parameters.
bool has_parameters(const PlainLayer& layer);

/// The reason why torch.nn refuses the layer's own sizes; empty where it does not.
std::string fault_of(const PlainLayer& layer);

}  // namespace memest
