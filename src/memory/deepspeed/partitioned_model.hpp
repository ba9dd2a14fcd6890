// A model in DeepSpeed's ZeRO 3 (deepspeed/runtime/zero/stage3.py, DeepSpeed 0.19).
//
//   construct  Every weight, as it is made (deepspeed.zero.Init) or where the model has its place,
//   is
//              cut to the rank's piece of it; the pieces go to the host and come
//              back as one flat tensor. Copies of it in fp32, sub_group_size elements each, by way
//              of another; gradients of zeros come and go. Then the bucket and the rank's
//              gradients; a gather of every weight, to hang a hook on it.
//   passes     WeightCoordinator, PartitionedGradients.
//   hand_over  All weights go. Norms in fp64, piece by piece. Sub-group by sub-group the gradients
//              are put together and widened, and the optimizer steps; behind it the weights that
//              stay are gathered.
//
// With the optimizer on the host there are no copies on the device and no step; with the weights
// there no flat tensor either.
//
// The scalars of its norms and of its checks for overflow are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/deepspeed/forward_calls.hpp"
#include "memory/deepspeed/partitioned_gradients.hpp"
#include "memory/deepspeed/partitioned_reference.hpp"
#include "memory/deepspeed/weight_coordinator.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/sharding/model_placement.hpp"

namespace memest {

class PartitionedModel final : public BlockHooks {
 public:
  struct Parts {
    const Job& job;
    const Graph& graph;
    const ForwardOrder& order;
    std::int64_t data_rank = 0;
    std::optional<LaunchDevice> device;
  };
  PartitionedModel(const Parts& parts, Recorder& recorder);

  /// Cuts the weights, which get their place one by one or have it, and answers the rank's pieces
  /// of what is trained.
  [[nodiscard]] HeldVector cut(ModelPlacement& placement);
  /// From these to the optimizer's copies of them.
  void construct(HeldVector pieces);
  /// The hooks around a reference's forward, which the model outlives; null without one.
  [[nodiscard]] std::unique_ptr<PartitionedReference> reference();
  /// The optimizer of the last sub-group, which the training loop steps.
  [[nodiscard]] OptimizerRun& optimizer() { return *groups_.back().optimizer; }

  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t) override {}
  void before_op(const OpSite& site) override;
  void after_op(const OpSite& site) override;
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  void before_node(const OpSite& site) override;
  void after_node(const OpSite& site) override;
  void save_again(const OpSite& site) override;
  void drop_saved_again(const OpSite& site) override;
  [[nodiscard]] StorageId gathered(std::uint32_t use) const override {
    return coordinator_->gathered(places_[use]);
  }
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void hand_over(OptimizerRun& last) override;
  void drop_gradients() override;

 private:
  /// Pieces that the optimizer steps at once.
  struct SubGroup {
    std::int64_t elements = 0;  ///< of the rank's pieces
    std::size_t parameters = 0;
    ParameterTensor row;
    std::unique_ptr<OptimizerRun> optimizer;
  };

  [[nodiscard]] bool offloads() const;
  [[nodiscard]] bool is_trained(std::uint32_t parameter) const;
  [[nodiscard]] const ParameterTensor& row(std::uint32_t parameter) const;
  /// A parameter's as it lies on the device, be it codes.
  [[nodiscard]] DType type_of(std::uint32_t parameter) const;
  [[nodiscard]] std::int64_t elements_of(std::uint32_t parameter) const;
  [[nodiscard]] std::vector<WeightCoordinator::Weight> weights() const;
  [[nodiscard]] std::vector<std::uint32_t> weights_of(
      std::uint32_t instance, const std::vector<TensorId>& parameters) const;
  [[nodiscard]] std::vector<std::uint32_t> in_order_of_cutting() const;
  [[nodiscard]] std::vector<std::int64_t> elements_of_trained() const;
  void find_sub_groups(const Inventory& inventory);
  [[nodiscard]] WeightCoordinator::Settings settings_of(const DeepSpeed& written) const;
  [[nodiscard]] std::vector<std::vector<CalledModule>> calls_of_reference() const;
  void join(HeldVector pieces);
  void make_copies();
  HeldStorage prepare(const SubGroup& group, OptimizerRun& optimizer);
  [[nodiscard]] HeldStorage make(LoopTensor tensor, Holding holding, std::int64_t elements,
                                 DType type);

  const Job& job_;
  Recorder& recorder_;
  std::optional<LaunchDevice> device_;
  const Graph& graph_;
  const ForwardOrder& order_;
  DType weights_;
  DType trained_type_;
  DType gradients_;
  DeepSpeedZero sharding_;
  std::vector<std::uint32_t> places_;  // of uses
  std::optional<ForwardCalls> forwards_;
  std::vector<std::uint32_t> trained_;  // of Timeline::parameters, those with gradients
  std::vector<std::vector<std::uint32_t>> modules_;  // the weights of each
  std::optional<WeightCoordinator> coordinator_;
  std::optional<PartitionedGradients> arrived_;
  std::vector<SubGroup> groups_;
  std::vector<std::pair<OpSite, HeldStorage>> saved_again_;
  HeldStorage wide_;  // gradients of the last sub-group in the optimizer's type, summed so
};

/// Why ZeRO 3 is not followed in the job, or nothing.
std::optional<Unavailable> partitioned_model_refusal(const Job& job);
/// Why DeepSpeed's ZeRO of any stage is not, or nothing.
std::optional<Unavailable> deepspeed_refusal(const Job& job);

}  // namespace memest
