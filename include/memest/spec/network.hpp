// The links between the nodes of a cluster: network cards as their ports are rated.
#pragma once

#include <string_view>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One direction of one GPU's share of its node's network cards.
struct Network {
  BytesPerSecond bandwidth;
  Seconds latency = Seconds(5e-6);                ///< of one message between nodes
  Provenance provenance = Provenance::estimated;  ///< datasheet where the spec says it
  std::string_view source = {};                   ///< a literal; empty where the spec says it

  friend bool operator==(const Network&, const Network&) = default;
};

}  // namespace memest
