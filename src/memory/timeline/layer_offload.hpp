// Saved tensors of the first N of L layers on the host, as Transformer Engine's
// get_cpu_offload_context has them (pytorch/cpu_offload.py of 2.11, DefaultOffloadSynchronizer).
//
//   forward   What a layer's nodes save is held by the layer's list. A layer's list is copied as
//             the next layer begins, and given up as layer L − N + i begins, for layer i.
//   backward  The list of layer i comes back as the backward of layer L − 1 − N + i begins, all of
//             it. Every layer's list, copied or not, is given up as the backward of the layer
//             before it begins: no node's own saved tensors go with the node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class LayerOffload {
 public:
  /// `is_layer`: of ForwardOrder::instances().
  LayerOffload(const std::vector<bool>& is_layer, std::int64_t offloaded, Recorder& recorder);

  /// Whether the instance, of ForwardOrder::instances(), is a layer: its nodes hold no tensor that
  /// the list has.
  [[nodiscard]] bool takes(std::uint32_t instance) const { return layer_of_[instance].has_value(); }
  /// The context around a layer is entered (fwd_step).
  void before_forward(std::uint32_t instance);
  /// A node of the layer saves `storage` (push_tensor). `label`: of what comes back for it.
  void push(std::uint32_t instance, StorageId storage, const Label& label);
  /// The gradient of what the layer answers is there (bwd_step).
  void before_backward(std::uint32_t instance);
  /// The engine has run its last node (finish_part_of_bwd).
  void end_backward();

 private:
  struct Saved {
    StorageId storage = kNoStorage;
    std::int64_t bytes = 0;
    Label label;
  };
  using Layer = std::vector<Saved>;

  void give_up(Layer& layer);
  void drop(Layer& layer);

  Recorder& recorder_;
  std::vector<std::optional<std::size_t>> layer_of_;  // of instances
  std::vector<Layer> layers_;
  std::size_t offloaded_ = 0;
  std::optional<std::size_t> running_;  // the layer whose backward runs
};

}  // namespace memest
