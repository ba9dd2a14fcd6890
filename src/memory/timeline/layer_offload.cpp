#include "memory/timeline/layer_offload.hpp"

#include <algorithm>
#include <utility>

namespace memest {

LayerOffload::LayerOffload(const std::vector<bool>& is_layer, std::int64_t offloaded,
                           Recorder& recorder)
    : recorder_(recorder), offloaded_(static_cast<std::size_t>(offloaded)) {
  std::size_t layers = 0;
  for (const bool layer : is_layer) {
    layer_of_.push_back(layer ? std::optional(layers++) : std::nullopt);
  }
  layers_.resize(layers);
}

void LayerOffload::before_forward(std::uint32_t instance) {
  if (!takes(instance)) return;
  const std::size_t kept = layers_.size() - offloaded_;
  const std::size_t layer = *layer_of_[instance];
  if (layer >= kept) give_up(layers_[layer - kept]);
}

/// _deduplicate_tensors: a tensor that several nodes of the layer save is one.
void LayerOffload::push(std::uint32_t instance, StorageId storage, const Label& label) {
  if (storage == kNoStorage) return;
  Layer& layer = layers_[*layer_of_[instance]];
  const auto is_same = [storage](const Saved& saved) { return saved.storage == storage; };
  if (std::ranges::any_of(layer, is_same)) return;
  recorder_.retain(storage);
  layer.push_back({storage, recorder_.timeline().storages[storage].bytes, label});
}

void LayerOffload::before_backward(std::uint32_t instance) {
  if (!takes(instance)) return;
  const std::size_t layer = *layer_of_[instance];
  if (running_) drop(layers_[*running_]);
  running_ = layer;
  const std::size_t kept = layers_.size() - offloaded_;
  if (layer + 1 < kept || layer + 1 - kept >= offloaded_) return;
  for (Saved& saved : layers_[layer + 1 - kept]) {
    saved.storage = recorder_.allocate(saved.bytes, saved.label);
  }
}

void LayerOffload::end_backward() {
  if (running_) drop(layers_[*std::exchange(running_, std::nullopt)]);
}

/// A list's objects end from its last to its first (Objects/listobject.c, list_dealloc).
void LayerOffload::give_up(Layer& layer) {
  for (auto saved = layer.rbegin(); saved != layer.rend(); ++saved) {
    recorder_.release(std::exchange(saved->storage, kNoStorage));
  }
}

void LayerOffload::drop(Layer& layer) {
  give_up(layer);
  layer.clear();
}

}  // namespace memest
