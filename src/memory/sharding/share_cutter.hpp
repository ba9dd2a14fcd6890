// The rank's shares of a model that fully_shard (FSDP2) finds on the host or on the GPU, and those
// that accelerate loads into a model on the meta device; PyTorch 2.11, accelerate 1.15.
//
//   cut    Unit by unit, the root last: what of the unit is on the host goes to the GPU whole, each
//          share is copied out of it, and it goes.
//   load   Tensor by tensor of the state dict: the whole one, broadcast, and its share; a tied head
//          is there a second time, until it is tied anew.
//
// accelerate holds some whole tensors by name until all is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/sharding/model_placement.hpp"
#include "memory/sharding/unit_layout.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class ShareCutter {
 public:
  struct Model {
    const Job& job;
    const Inventory& whole;
    const Inventory& shares;
    const ForwardOrder& order;
    const ModelTensors& tensors;
  };
  ShareCutter(const Model& model, ModelPlacement& placement, Recorder& recorder);

  void cut();
  void load();
  /// One whole tensor, on its way to the rank's share of it, which stays.
  StorageId load_tensor(std::size_t parameter);

 private:
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const {
    return model_.whole.parameters[model_.tensors.parameters[parameter].row];
  }
  [[nodiscard]] std::int64_t whole_elements(std::size_t parameter) const;
  [[nodiscard]] std::vector<bool> held_by_accelerate() const;
  StorageId place_share(std::size_t parameter);
  void cut(const ShardedUnit& unit);

  Model model_;
  ModelPlacement& placement_;
  Recorder& recorder_;
  std::vector<HeldStorage> whole_;  // by parameter
  std::vector<bool> held_;
};

/// The units in the order in which they are wrapped: the blocks before the ends, the model last.
std::vector<ShardedUnit> units_as_wrapped(const ShareCutter::Model& model,
                                          const Timeline& timeline);

}  // namespace memest
