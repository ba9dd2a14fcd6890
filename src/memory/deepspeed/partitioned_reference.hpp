// A reference beside a model in DeepSpeed's ZeRO 3, whose forward runs under no_grad:
//
//   with adapters   the model itself with its adapters off. Its own coordinator gathers; the calls
//                   are fewer than those that this has written down.
//   of its own      a model of the same modules in an engine of its own without an optimizer
//                   (trl/models/utils.py, prepare_deepspeed), whose weights are gathered in a
//                   stream of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/spec/model.hpp"
#include "memory/deepspeed/forward_calls.hpp"
#include "memory/deepspeed/weight_coordinator.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class PartitionedReference final : public BlockHooks {
 public:
  /// The coordinator, the trained model's, outlives it.
  PartitionedReference(std::vector<std::vector<CalledModule>> calls, WeightCoordinator& coordinator)
      : forwards_(std::move(calls), true), coordinator_(coordinator) {}

  struct Model {
    const Inventory& inventory;
    DType weights;
    Recorder& recorder;
    bool made_cut = true;  ///< by deepspeed.zero.Init; otherwise the engine takes it from the host
  };
  PartitionedReference(std::vector<std::vector<CalledModule>> calls, WeightCoordinator coordinator,
                       const Model& model)
      : forwards_(std::move(calls), true),
        model_(model),
        own_(std::move(coordinator)),
        coordinator_(*own_) {}

  /// Cuts the weights of a model of its own, and has its engine hang a hook on each.
  void place();

  void before_forward(std::uint32_t instance) override {
    if (instance == 0) coordinator_.begin_run();
  }
  void after_forward(std::uint32_t) override {}
  void before_op(const OpSite& site) override { forwards_.before_op(site, coordinator_); }
  void after_op(const OpSite& site) override { forwards_.after_op(site, coordinator_); }
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t, StorageId) override { return false; }
  void end_backward() override {}
  void drop_gradients() override {}

 private:
  ForwardCalls forwards_;
  std::optional<Model> model_;
  std::optional<WeightCoordinator> own_;
  WeightCoordinator& coordinator_;
};

}  // namespace memest
