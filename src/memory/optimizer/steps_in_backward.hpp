// An optimizer that steps every parameter as soon as its gradient is complete, and lets it go
// (torchtune/training/memory.py, register_optim_in_bwd_hooks): an optimizer of its own for each.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/engine/block_hooks.hpp"
#include "memory/optimizer/optimizer_run.hpp"

namespace memest {

class StepsInBackward : public BlockHooks {
 public:
  /// `places`: for each of ForwardOrder::parameters() its index into Timeline::parameters. `job`
  /// and `recorder` outlive this.
  struct Parts {
    const Job& job;
    std::vector<std::uint32_t> places;
    std::optional<LaunchDevice> device;
    Recorder& recorder;
  };
  StepsInBackward(const Parts& parts, const ParameterGroup& stepped);

  void before_forward(std::uint32_t /*instance*/) override {}
  void after_forward(std::uint32_t /*instance*/) override {}
  void before_backward(std::uint32_t /*instance*/) override {}
  void after_backward(std::uint32_t /*instance*/) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override {}
  void drop_gradients() override {}

 private:
  std::vector<std::uint32_t> places_;
  std::vector<std::optional<OptimizerRun>> optimizers_;  // by Timeline::parameters
  Recorder& recorder_;
};

}  // namespace memest
