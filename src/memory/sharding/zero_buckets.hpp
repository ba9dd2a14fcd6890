// DeepSpeed's ZeRO 1 and 2 (deepspeed/runtime/zero/stage_1_and_2.py, DeepSpeed 0.19).
//
//   construct   One flat tensor takes the place of the weights; the rank's partition of it is
//   copied
//               to fp32.
//   backward    The first gradient makes the bucket, of its whole size. In stage 2 each gradient is
//               copied into it as it comes, and goes; one that is larger than the bucket waits by
//               itself. Stage 1 keeps all gradients and does the same at the end of the last
//               micro-step's backward. A full bucket is reduced: put together in one tensor where
//               what lies in it is of several ranks; then what reaches into the rank's own
//               partition is copied to a tensor of its own.
//   hand_over   Norms in fp64, tensor by tensor; then the partition's gradients are put together
//   and
//               widened.
//
// With the optimizer on the host nothing is made of the partition but its clone, and a buffer of
// the largest gradient stays for what comes back from there. Gradients larger than the bucket are
// cloned. Behind its reduction the last micro-step's gradient goes: its norm is taken of what lies
// in the partition, and a copy of that in fp32 is sent.
//
// The scalars of its checks for overflow and of its norms are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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
  };
  /// `places`: of ForwardOrder::parameters(), see parameter_places().
  ZeroBuckets(const Model& model, std::vector<std::uint32_t> places, Recorder& recorder);

  /// `weights` have their place, and go to the host; answers what stands for them.
  HeldVector send_weights(const std::vector<StorageId>& weights);
  /// The flat tensor comes to the device, which then has `weights` as its parts.
  void flatten(const std::vector<StorageId>& weights);
  /// `optimizer` gets its copies of the partition.
  void give_partition(OptimizerRun& optimizer);
  [[nodiscard]] const FlatPartitions& partitions() const { return partitions_; }

  void before_forward(std::uint32_t) override {}
  void after_forward(std::uint32_t) override {}
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void drop_gradients() override;
  void hand_over(OptimizerRun& optimizer) override;

 private:
  struct Elements {
    std::int64_t count = 0;
    DType type = DType::fp32;
  };
  struct Filled {
    std::size_t parameter = 0;
    HeldStorage gradient;  ///< where it is not in the bucket
  };

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
  FlatPartitions partitions_;
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
