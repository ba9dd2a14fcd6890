// Megatron-FSDP (megatron_fsdp.py of megatron-core 0.16.1, optim_grads_params): weights, main
// weights and gradients lie in equal shares of buckets, one a layer, and of what stands outside of
// them.
//
// Weights that live in fp8 have buckets of their own in a layer, a byte an element.
//
//   gather   in the all-gather stream, before a layer runs, and ahead of it until 500 M elements,
//            or a layer where that is more, are on their way: in the order of buckets in the
//            forward, against it in the backward. A layer gives its weights back behind either
//            pass; what stands outside of layers stays gathered until the step.
//   reduce   whole gradients fill a bucket, which is reduced to a share in the reduce-scatter
//            stream and added to the rank's own. Buckets wait for that, a billion elements of
//            them, or two layers; the last ones to the backward's end.
//   step     of what lies in the rank's shares; then the first buckets are gathered again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/megatron/megatron_weights.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/optimizer/stepped_states.hpp"
#include "memory/states/unit_buckets.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class MegatronUnits final : public BlockHooks, public SteppedStates {
 public:
  /// The recorder's timeline has the model's tensors.
  MegatronUnits(const MegatronModel& model, Recorder& recorder);

  [[nodiscard]] MegatronWeights& weights() { return weights_; }
  /// Float16Module, then the shares; weights are given up bucket by bucket.
  void make_shares();
  void make_optimizer(const std::optional<LaunchDevice>& device);
  /// Elements of what a data rank steps.
  [[nodiscard]] std::vector<std::int64_t> stepped_elements(std::int64_t data_rank) const;

  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t instance) override;
  void before_backward(std::uint32_t instance) override;
  void after_backward(std::uint32_t instance) override;
  void write_gradient(std::uint32_t use) override;
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void drop_gradients() override {}

  void finish_gradients() override;
  void zero_grad() override;
  void step(Recorder& recorder) override;
  [[nodiscard]] std::int64_t tensor_summed_elements() const override;

 private:
  enum class Order : std::uint8_t { forward, backward };
  struct State {
    HeldStorage gathered;
    HeldStorage gradients;    ///< whole, until they are reduced
    std::size_t arrived = 0;  ///< parameters with a gradient
    bool releasable = false;  ///< when the next bucket is gathered
  };

  void find_buckets(const MegatronModel& model);
  void leave_on_meta();
  /// Bytes of so many elements of the bucket's weights.
  [[nodiscard]] std::int64_t weight_bytes(std::size_t bucket, std::int64_t elements) const;
  void gather(std::size_t bucket, Order order);
  [[nodiscard]] std::vector<bool> with_ahead(std::size_t bucket, Order order) const;
  void release(std::size_t bucket) { states_[bucket].gathered.drop(); }
  void recycle();
  void fill(std::size_t bucket);
  void arrive(std::size_t bucket);
  void reduce(std::size_t bucket);
  void free_reduced(std::int64_t most);
  [[nodiscard]] Label label_of(std::size_t bucket, UnitTensor tensor) const;
  [[nodiscard]] std::vector<std::pair<std::size_t, std::int64_t>> stepped(
      std::int64_t data_rank) const;

  const Job& job_;
  const Recipe& recipe_;
  const ForwardOrder& order_;
  Recorder& recorder_;
  JobRank rank_;
  MegatronWeights weights_;
  std::vector<UnitBucket> buckets_;
  std::vector<State> states_;                        // of buckets
  std::vector<std::vector<std::size_t>> of_blocks_;  // buckets that an instance reads
  std::vector<bool> is_layer_;                       // of instances
  std::vector<std::size_t> of_uses_;                 // the bucket of ForwardOrder::parameters()
  std::vector<std::uint32_t> first_instance_;        // of a bucket
  std::int64_t queue_capacity_ = 0;                  // elements
  std::deque<std::size_t> reducing_;                 // buckets
  bool in_backward_ = false;
  std::deque<ParameterTensor> shares_;  // what the optimizer sees
  std::vector<std::int64_t> normed_;
  std::optional<LaunchDevice> device_;
  std::optional<OptimizerRun> optimizer_;
};

}  // namespace memest
