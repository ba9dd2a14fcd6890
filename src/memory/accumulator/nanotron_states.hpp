// Tensors that nanotron keeps of a model on one rank beside its weights: DistributedDataParallel's
// buckets of 16-bit gradients, FP32GradientAccumulator's two flat buffers, of gradients and of fp32
// weights, and the optimizer's states. Under ZeRO 1 a rank steps an equal part of every parameter.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/sharding/gradient_buckets.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class NanotronStates final : public BlockHooks {
 public:
  /// A stage of the model as a rank has it, placed.
  struct Model {
    const Job& job;
    const Graph& graph;
    const ForwardOrder& order;
    std::optional<LaunchDevice> device = {};
  };
  NanotronStates(const Model& model, Recorder& recorder);

  /// DistributedDataParallel around the model, where it has several replicas.
  void wrap();
  void make_optimizer();
  /// Norm and scaling of the gradients, AdamW's step on the fp32 weights, which are copied to the
  /// 16-bit ones in place; parts of weights are all-gathered.
  void step();

  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t) override {}
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void hold_gradients(bool held) override;
  void drop_gradients() override {}

 private:
  [[nodiscard]] std::int64_t share(std::int64_t elements) const;
  void reduce(std::int64_t bytes);
  void clip();
  void gather_weights();
  HeldStorage make(std::int64_t elements, DType type, LoopTensor tensor);

  const Job& job_;
  const Recipe& recipe_;
  const Graph& graph_;
  Recorder& recorder_;
  std::optional<LaunchDevice> device_;
  std::int64_t parts_ = 1;     // that the optimizer's states are cut into
  std::int64_t elements_ = 0;  // of all parameters
  std::int64_t of_rank_ = 0;   // of those that it steps
  std::optional<GradientBuckets> buckets_;
  bool held_ = false;                   // under no_sync()
  std::vector<std::int64_t> coming_;    // bytes of the running backward's buckets
  std::int64_t waiting_ = 0;            // bytes of the bucket that fills
  HeldStorage norm_;                    // grad_norm_unclipped
  HeldVector reduced_;                  // flat copies of the bucket that is reduced
  std::deque<ParameterTensor> shares_;  // what the optimizer sees
  std::optional<OptimizerRun> optimizer_;
};

}  // namespace memest
