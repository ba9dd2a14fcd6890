// DeepSpeed's optimizers around Megatron's layers (Megatron-DeepSpeed), read in DeepSpeed 0.6.7:
//
//   fp16   DeepSpeedZeroOptimizer in stage 1 (ZeroBuckets), whose weights are made flat on the
//   host. bf16   BF16_Optimizer. One flat tensor takes the place of the weights, and one in fp32
//   has the
//          sums of all gradients. A backward's own gradients stay until the next one begins; behind
//          it each is added to its sum by way of a copy in fp32. The step reduces the sums in a
//          16-bit copy of all of them, steps the rank's partition, and gathers the weights through
//          another flat tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/engine.hpp"
#include "memory/megatron/megatron_program.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/optimizer/stepped_states.hpp"
#include "memory/sharding/zero_buckets.hpp"

namespace memest {

class Bf16Gradients final : public BlockHooks {
 public:
  /// `places`: of ForwardOrder::parameters(), see parameter_places().
  Bf16Gradients(const ZeroBuckets::Model& model, std::vector<std::uint32_t> places,
                Recorder& recorder);

  /// The flat tensor is made of `weights`, which then are its parts, and the sums with it.
  void flatten(const std::vector<StorageId>& weights);
  [[nodiscard]] const FlatPartitions& partitions() const { return partitions_; }
  /// The sums are reduced in a copy in 16 bits.
  void reduce();

  void before_forward(std::uint32_t) override {}
  void after_forward(std::uint32_t) override {}
  void before_backward(std::uint32_t) override;
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void drop_gradients() override {}

 private:
  HeldStorage make(LoopTensor tensor, Holding holding, std::int64_t elements, DType type);

  Recorder& recorder_;
  DType weights_;
  DType sums_;
  std::vector<std::uint32_t> places_;  // of uses
  std::vector<std::int64_t> elements_;
  FlatPartitions partitions_;
  std::vector<HeldStorage> gradients_;  // of the last backward
  bool ended_ = false;
};

class DeepSpeedStates final : public SteppedStates {
 public:
  struct Parts {
    ZeroBuckets::Model model;
    std::vector<std::uint32_t> places;
    Recorder& recorder;
    std::optional<LaunchDevice> device;
  };
  explicit DeepSpeedStates(const Parts& parts);

  /// The hooks that take the model's gradients.
  [[nodiscard]] BlockHooks& hooks();
  /// From the weights, which have their place, to the optimizer's states: it steps once with
  /// gradients of zeros.
  void construct(const Timeline& timeline);

  void zero_grad() override {}
  void step(Recorder& recorder) override;
  [[nodiscard]] std::int64_t tensor_summed_elements() const override { return 0; }

 private:
  [[nodiscard]] OptimizerRun& optimizer();
  HeldStorage flat_weights(std::int64_t elements);
  void gather_weights();

  Recorder& recorder_;
  DType weights_;
  std::int64_t ranks_;
  std::unique_ptr<ZeroBuckets> buckets_;  // of fp16
  std::unique_ptr<Bf16Gradients> sums_;   // of bf16
  ParameterTensor flat_;                  // the partition, as the optimizer sees it
  std::optional<OptimizerRun> optimizer_;
};

/// Megatron's model in DeepSpeed's engine.
Timeline write_megatron_deepspeed(const MegatronRank& of);

}  // namespace memest
