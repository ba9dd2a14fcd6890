// The passes of ring_attention.cpp's operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "graph/lower/attention/compiled_ring.hpp"

namespace memest {

/// Two tensors that take one another's place from step to step.
template <class Item>
struct Alternating {
  std::array<Item, 2> items;

  Item& of(std::int64_t step) { return items[static_cast<std::size_t>(step % 2)]; }
  Item& before(std::int64_t step) { return of(step + 1); }
};

/// Writes the forward of `op`, which has its outputs: the output, log-sum-exp, seed and offset.
void write_ring_forward(BlockBuilder& block, const RingShapes& shapes, Op& op);

}  // namespace memest
