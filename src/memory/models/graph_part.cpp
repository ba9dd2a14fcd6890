#include "memory/models/graph_part.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace memest {

GraphPart part_of(const Graph& whole, std::span<const BlockRun> order, Timeline& timeline) {
  GraphPart part;
  part.place = static_cast<std::uint32_t>(timeline.places.size());
  part.graph.trains = false;
  part.graph.sizes = whole.sizes;
  std::vector<std::size_t> blocks;  // of the whole graph
  std::int64_t layer = 0;
  for (const BlockRun& run : order) {
    const auto known = std::find(blocks.begin(), blocks.end(), run.block);
    part.graph.order.push_back({static_cast<std::size_t>(known - blocks.begin()), run.repeat});
    const Block& block = whole.blocks[run.block];
    if (known == blocks.end()) {
      blocks.push_back(run.block);
      part.graph.blocks.push_back(block);
    }
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      timeline.places.push_back(
          {static_cast<std::uint32_t>(run.block), block.checkpointable ? ++layer : 0});
    }
  }
  return part;
}

}  // namespace memest
