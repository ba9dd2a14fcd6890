// The rank's shares of a model that fully_shard (FSDP2) finds on the host, as accelerate 1.15 hands
// it over: unit by unit, the root last, the weights go to the GPU whole, each share is copied out,
// and they go. Some of them accelerate holds by name until all are cut.
#pragma once

#include <cstdint>
#include <vector>

#include "forward_order.hpp"
#include "memest/spec/job.hpp"
#include "model_placement.hpp"
#include "recorder.hpp"
#include "unit_layout.hpp"

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

 private:
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const {
    return model_.whole.parameters[model_.tensors.parameters[parameter].row];
  }
  [[nodiscard]] std::int64_t whole_elements(std::size_t parameter) const;
  [[nodiscard]] std::vector<bool> held_by_accelerate() const;
  void place_share(std::size_t parameter);
  void cut(const ShardedUnit& unit);

  Model model_;
  ModelPlacement& placement_;
  Recorder& recorder_;
  std::vector<StorageId> whole_;  // by parameter
  std::vector<bool> held_;
};

}  // namespace memest
