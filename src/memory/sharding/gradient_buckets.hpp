// torch.nn.parallel.DistributedDataParallel, PyTorch 2.11: gradients are copied into flat buckets
// that are reduced while the backward goes on. The first backward has one bucket for all; it tells
// in which order gradients come, and before the second forward the buckets are made anew in that
// order: the first is closed at 1 MiB and the others at the cap, with the gradient that reaches it.
// Source: torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/sharding/coalesced_broadcast.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class GradientBuckets final : public BlockHooks {
 public:
  /// Arguments of the wrapper beside those that the job has.
  struct Options {
    DType gradients = DType::fp32;  ///< of the parameters
    bool sends_buffers = true;      ///< broadcast_buffers
    /// bucket_cap_mb is an argument: the first bucket is as the others.
    bool gives_cap = false;
    /// find_unused_parameters: buckets in the order of the parameters, for good.
    bool finds_unused = false;
  };
  GradientBuckets(const Job& job, const Inventory& inventory, const ForwardOrder& order,
                  Recorder& recorder);

  /// Before construct(); the job's where nobody calls it.
  void set_options(const Options& options) { options_ = options; }

  /// The constructor of DistributedDataParallel: compares shapes, sends the first rank's tensors,
  /// makes the first bucket. Where nobody has called it, the first forward does (replicate()).
  void construct();
  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t) override {}
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  /// _DDPSink.
  [[nodiscard]] bool copies_answers() const override { return options_.finds_unused; }
  void hold_gradients(bool held) override { held_ = held; }
  void drop_gradients() override { has_views_ = false; }
  /// The sizes of the buckets, the first to fill first.
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }

 private:
  void compare_shapes();
  void broadcast();
  void rebuild();
  [[nodiscard]] BucketLimits limits() const;
  [[nodiscard]] std::vector<std::int64_t> sizes_by_definition(const BucketLimits& limits) const;
  [[nodiscard]] BucketTensor gradient_of(std::uint32_t use) const;
  void make_buckets(const std::vector<std::int64_t>& sizes);
  void add_buffers(CoalescedBroadcast& sent) const;
  [[nodiscard]] HeldStorage make(LoopTensor tensor, Holding holding, std::int64_t bytes);

  const Parallelism& parallelism_;
  const Inventory& inventory_;
  const ForwardOrder& order_;
  const Timeline& timeline_;
  Recorder& recorder_;
  Options options_;
  const Recipe& recipe_;
  const QuantizedWeights* quantized_;  // null: no weight is codes
  bool adapted_;                       // gradients are of their parameters' types
  std::vector<BucketTensor> arrived_;  // gradients, as the first backward made them
  std::vector<std::int64_t> sizes_;
  HeldVector buckets_;
  HeldStorage used_;          // local_used_map_dev_
  bool held_ = false;         // under no_sync()
  bool reduced_last_ = true;  // require_forward_param_sync
  bool constructed_ = false;
  bool rebuilt_ = false;
  bool has_run_ = false;    // a backward
  bool has_views_ = false;  // gradients are there, as views of buckets_
};

}  // namespace memest
