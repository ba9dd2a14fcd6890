#include "memory/sharding/model_tensors.hpp"

#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements = checked_multiply(elements, size);
  return elements;
}

}  // namespace

ModelTensors model_tensors(const Inventory& inventory) {
  ModelTensors tensors;
  for (const PlacedTensor& placed : tensors_in_order(inventory)) {
    std::vector<TensorPlace>& places = placed.buffer ? tensors.buffers : tensors.parameters;
    tensors.order.push_back({placed.buffer, places.size()});
    const auto& shape = placed.buffer ? inventory.buffers[placed.row].shape
                                      : inventory.parameters[placed.row].shape;
    places.push_back(
        {static_cast<std::uint32_t>(placed.row), placed.copy, elements_of(shape), placed.layer});
  }
  return tensors;
}

ModelTensors name_model(const Graph& graph, const ForwardOrder& order, const Inventory& inventory,
                        Timeline& timeline) {
  for (const BlockInstance& instance : order.instances()) {
    const bool layer = graph.blocks[instance.block].checkpointable;
    timeline.places.push_back({instance.block, layer ? ++timeline.layers : 0});
  }
  ModelTensors tensors = model_tensors(inventory);
  timeline.parameters = tensors.parameters;
  timeline.buffers = tensors.buffers;
  return tensors;
}

std::vector<std::int64_t> elements_of_parameters(const Timeline& timeline) {
  std::vector<std::int64_t> elements;
  for (const TensorPlace& place : timeline.parameters) elements.push_back(place.elements);
  return elements;
}

std::vector<StorageId> placed_weights(const Timeline& timeline) {
  std::vector<StorageId> weights(timeline.parameters.size(), kNoStorage);
  for (StorageId i = 0; i < timeline.storages.size(); ++i) {
    const Label& label = timeline.storages[i].label;
    if (label.origin == Origin::parameter) weights[label.place] = i;
  }
  return weights;
}

}  // namespace memest
