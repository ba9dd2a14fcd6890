// The model's tensors one by one, as PyTorch walks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/model.hpp"
#include "memory/engine/forward_order.hpp"

namespace memest {

struct ModelTensors {
  struct Step {
    bool buffer = false;
    std::size_t place = 0;  ///< index into `buffers` or `parameters`
  };
  std::vector<TensorPlace> parameters;  ///< in the order of Module.parameters()
  std::vector<TensorPlace> buffers;
  std::vector<Step> order;  ///< of Module.to(), which walks both
};

ModelTensors model_tensors(const Inventory& inventory);

/// Tells the timeline of the model's places and of the tensors of `inventory`.
ModelTensors name_model(const Graph& graph, const ForwardOrder& order, const Inventory& inventory,
                        Timeline& timeline);

/// Elements of Timeline::parameters, one by one.
std::vector<std::int64_t> elements_of_parameters(const Timeline& timeline);

/// The storages of the parameters that have their place by now.
std::vector<StorageId> placed_weights(const Timeline& timeline);

}  // namespace memest
