// Layers that use the weights of another.
#pragma once

#include <cstdint>

namespace memest {

/// Which layer comes next behind one that has weights of its own.
enum class SharedOrder : std::uint8_t {
  repeat,  ///< itself once more, before the next one's: 1 1 2 2 (MobileLLM's blocks)
  cycle    ///< the next one, and the first behind the last: 1 2 1 2 (Universal Transformer's)
};

struct SharedLayers {
  std::int64_t distinct = 1;  ///< sets of weights, which all layers share out evenly
  SharedOrder order = SharedOrder::repeat;

  /// The first of `layers` layers, from 0, that has the weights of `layer`.
  [[nodiscard]] constexpr std::int64_t owner_of(std::int64_t layer, std::int64_t layers) const {
    const std::int64_t uses = layers / distinct;
    return order == SharedOrder::cycle ? layer % distinct : layer / uses * uses;
  }

  friend bool operator==(const SharedLayers&, const SharedLayers&) = default;
};

}  // namespace memest
