#include "memest/spec/layer_blocks.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace memest {
namespace {

bool is_same(const LinearLayer& left, const LinearLayer& right) {
  return left.in == right.in && left.out == right.out && left.bias == right.bias;
}
bool is_same(const ActivationLayer& left, const ActivationLayer& right) {
  return left.function == right.function && left.in_place == right.in_place;
}
bool is_same(const NormLayer& left, const NormLayer& right) {
  return left.kind == right.kind && left.size == right.size && left.bias == right.bias;
}
bool is_same(const SoftmaxLayer& /*left*/, const SoftmaxLayer& /*right*/) { return true; }
bool is_same(const DropoutLayer& left, const DropoutLayer& right) {
  return left.probability == right.probability && left.in_place == right.in_place;
}
bool is_same(const EmbeddingLayer& left, const EmbeddingLayer& right) {
  return left.rows == right.rows && left.size == right.size;
}

bool is_same_layer(const PlainLayer& left, const PlainLayer& right) {
  return std::visit(
      [&right](const auto& layer) {
        const auto* const other = std::get_if<std::decay_t<decltype(layer)>>(&right);
        return other != nullptr && is_same(layer, *other);
      },
      left);
}

}  // namespace

bool have_same_layers(const LayerBlock& left, const LayerBlock& right) {
  return std::equal(left.block.begin(), left.block.end(), right.block.begin(), right.block.end(),
                    is_same_layer);
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
