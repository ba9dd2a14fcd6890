// The buffers of one forward pass where nothing is kept for a backward, by how they are shared:
// MXNet's static plans (a buffer for every result, taken over in place, and by reference count),
// arenas at offsets, and PyTorch's caching allocator. Parameters and what enters the pass are not
// among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/spec/allocator.hpp"

namespace memest {

/// Heights in bytes, of the results as they are or where elementwise operations write into the
/// input that they read last.
struct BufferHeights {
  std::int64_t apart = 0;    ///< a buffer for each
  std::int64_t counted = 0;  ///< of MXNet's pool, by reference count
  std::int64_t packed = 0;   ///< of an arena with offsets (packing.hpp)
  std::int64_t bound = 0;    ///< the most alive at once
  std::int64_t cached = 0;   ///< reserved by PyTorch's caching allocator for the same lives
  std::size_t buffers = 0;   ///< results; those written over are none of their own
};

struct ForwardBuffers {
  BufferHeights as_they_are;
  BufferHeights in_place;
};

/// Unavailable for more results than packing.hpp packs. Throws OverflowError.
std::variant<ForwardBuffers, Unavailable> forward_buffers(const Graph& graph,
                                                          const AllocatorSettings& allocator);

}  // namespace memest
