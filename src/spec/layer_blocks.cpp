#include "memest/spec/layer_blocks.hpp"

#include <algorithm>

namespace memest {

bool operator==(const ResidualLayer& left, const ResidualLayer& right) {
  return left.in_place == right.in_place && left.body == right.body &&
         left.shortcut == right.shortcut;
}

bool operator==(const ConcatLayer& left, const ConcatLayer& right) {
  return left.branches == right.branches && left.then == right.then;
}

bool operator==(const DenseLayer& left, const DenseLayer& right) {
  return left.rounds == right.rounds;
}

bool have_same_layers(const LayerBlock& left, const LayerBlock& right) {
  return left.block == right.block;
}

std::size_t count_different(const std::vector<LayerBlock>& blocks, std::size_t most) {
  std::vector<const LayerBlock*> different;
  for (const LayerBlock& block : blocks) {
    const bool known =
        std::any_of(different.begin(), different.end(),
                    [&block](const LayerBlock* other) { return have_same_layers(*other, block); });
    if (!known) different.push_back(&block);
    if (different.size() > most) break;
  }
  return different.size();
}

}  // namespace memest
