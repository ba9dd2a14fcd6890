// DeepSpeed's ZeRO 1 and 2 (deepspeed/runtime/zero/stage_1_and_2.py, DeepSpeed 0.19).
//
//   construct   One flat tensor a parameter group takes the place of its weights; the rank's
//               partition of it is copied to fp32.
//   backward    The first gradient makes the bucket, of its whole size. In stage 2 each gradient is
//               copied into it as it comes, and goes; one that is larger than the bucket waits by
//               itself. Stage 1 keeps all gradients and does the same at the end of the last
//               micro-step's backward. A full bucket is reduced: put together in one tensor where
//               what lies in it is of several ranks; then what reaches into the rank's own
//               partition is copied to a tensor of its own.
//   hand_over   Norms in fp64, tensor by tensor; then, group by group, the partition's gradients
//               are put together and widened, and the optimizer steps; the last one is the loop's
//               to step.
//
// With the optimizer on the host nothing is made of the partition but its clone, and a buffer of
// the largest gradient stays for what comes back from there. Gradients larger than the bucket are
// cloned. Behind its reduction the last micro-step's gradient goes: its norm is taken of what lies
// in the partition, and a copy of that in fp32 is sent.
//
// The scalars of its checks for overflow and of its norms are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/inventory.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class ZeroBuckets final : public BlockHooks {
 public:
  struct Model {
    const Job& job;
    const Inventory& inventory;
    std::int64_t data_rank = 0;
    /// Those of a step that are followed; absent: as without a pipeline.
    std::optional<std::int64_t> micro_steps = {};
    std::optional<LaunchDevice> device = {};
  };
  /// `places`: of ForwardOrder::parameters(), see parameter_places().
  ZeroBuckets(const Model& model, std::vector<std::uint32_t> places, Recorder& recorder);

  /// Those of `weights` that are trained go to the host; answers what stands for each.
  std::vector<StorageId> send_weights(const std::vector<StorageId>& weights);
  /// Group by group the flat tensor comes to the device, whose parts take the place of `weights`,
  /// and the optimizer gets its copies of the partition.
  void construct(const std::vector<StorageId>& weights);
  /// The optimizer of the last group, which the training loop steps.
  [[nodiscard]] OptimizerRun& optimizer() { return *groups_.back().optimizer; }
  /// Elements of all flat tensors, and of the rank's partitions of them.
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t partition() const;

  void before_forward(std::uint32_t) override {}
  void after_forward(std::uint32_t) override {}
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void drop_gradients() override;
  void hand_over(OptimizerRun& last) override;

 private:
  struct Elements {
    std::int64_t count = 0;
    DType type = DType::fp32;
  };
  struct Filled {
    std::size_t parameter = 0;
    HeldStorage gradient;  ///< where it is not in the bucket
  };
  /// Parameters that the optimizer steps as one flat tensor.
  struct Group {
    FlatPartitions partitions;
    std::vector<std::uint32_t> parameters;  ///< of Timeline::parameters
    ParameterTensor row;
    std::unique_ptr<OptimizerRun> optimizer;
  };
  struct Place {
    std::size_t group = 0;
    std::size_t parameter = 0;  ///< of its partitions
  };

  void make_groups(const Model& model);
  [[nodiscard]] const FlatPartitions& partitions_of(std::size_t parameter) const {
    return groups_[group_of_[parameter].group].partitions;
  }
  [[nodiscard]] std::size_t place_of(std::size_t parameter) const {
    return group_of_[parameter].parameter;
  }
  template <class Count>
  [[nodiscard]] std::int64_t of_all_groups(Count count) const;
  /// Elements of all parameters that reach into the rank's partitions.
  [[nodiscard]] std::int64_t reaching() const;
  void widen(Group& group);

  void open_buckets();
  void add(std::size_t parameter, HeldStorage gradient);
  void reduce();
  void keep_own(Filled& filled);
  void send_own(Filled& filled);
  [[nodiscard]] bool is_of_several_ranks() const;
  [[nodiscard]] bool widens_partition() const;
  [[nodiscard]] bool reduces_now() const;
  [[nodiscard]] Stream reduction_stream() const;
  [[nodiscard]] HeldStorage make(LoopTensor tensor, Holding holding, Elements elements,
                                 Stream stream = Stream::compute);

  Recorder& recorder_;
  /// Stage 2.
  [[nodiscard]] bool shards_gradients() const {
    return zero_.stage == ZeroStage::optimizer_gradients;
  }

  DeepSpeedZero zero_;
  bool offloads_;
  std::int64_t rank_;
  std::int64_t micro_steps_;
  DType weights_;
  DType gradients_;
  std::vector<std::uint32_t> places_;       // of uses
  std::vector<std::size_t> trained_index_;  // by Timeline::parameters
  std::vector<Group> groups_;
  std::vector<Place> group_of_;     // by trained parameter
  std::vector<HeldStorage> whole_;  // stage 1's gradients, by trained parameter
  HeldVector buckets_;
  std::vector<Filled> filled_;
  std::int64_t filled_elements_ = 0;
  HeldVector waiting_;    // reduced, and not yet cleared
  HeldVector arrived_;    // the partition's gradients of this backward
  HeldVector collected_;  // of all backwards of the step
  std::int64_t micro_step_ = 1;
};

}  // namespace memest
