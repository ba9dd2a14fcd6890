#include "memest/spec/layer_blocks.hpp"

#include <algorithm>
#include <variant>

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

bool is_checkpointable(const LayerBlock& block, bool images) {
  if (!images || block.block.size() != 1) return true;
  const PlainLayer& layer = block.block.front();
  return std::holds_alternative<ResidualLayer>(layer) ||
         std::holds_alternative<ConcatLayer>(layer) || std::holds_alternative<DenseLayer>(layer);
}

std::optional<std::int64_t> checkpointable_layers(const ModelSpec& model) {
  if (const auto* decoder = std::get_if<DecoderSpec>(&model.architecture)) return decoder->layers();
  const auto* list = std::get_if<LayerList>(&model.architecture);
  if (list == nullptr) return std::nullopt;
  std::int64_t layers = 0;
  for (const LayerBlock& block : list->blocks) {
    if (is_checkpointable(block, list->reads_images())) layers += block.repeat;
  }
  return layers;
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
