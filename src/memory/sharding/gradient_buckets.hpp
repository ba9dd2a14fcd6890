// torch.nn.parallel.DistributedDataParallel, PyTorch 2.11: gradients are copied into flat buckets
// that are reduced while the backward goes on. The first backward has one bucket for all; it tells
// in which order gradients come, and before the second forward the buckets are made anew in that
// order. Source: torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/sharding/coalesced_broadcast.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// The sizes of DDP's buckets over gradients of `bytes` each, in the order in which they come: the
/// first is closed at 1 MiB and the others at `cap`, with the gradient that reaches it.
std::vector<std::int64_t> bucket_sizes(const std::vector<std::int64_t>& bytes, std::int64_t cap);

class GradientBuckets final : public BlockHooks {
 public:
  GradientBuckets(const Job& job, const Inventory& inventory, const ForwardOrder& order,
                  Recorder& recorder);

  /// The constructor of DistributedDataParallel: compares shapes, sends the first rank's tensors,
  /// makes the first bucket. Where nobody has called it, the first forward does (replicate()).
  void construct();
  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t) override {}
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t use, StorageId gradient) override;
  void end_backward() override;
  void drop_gradients() override { has_views_ = false; }

 private:
  void compare_shapes();
  void broadcast();
  void rebuild();
  void make_buckets(const std::vector<std::int64_t>& sizes);
  void add_buffers(CoalescedBroadcast& sent) const;
  [[nodiscard]] HeldStorage make(LoopTensor tensor, Holding holding, std::int64_t bytes);

  const Parallelism& parallelism_;
  const Inventory& inventory_;
  const ForwardOrder& order_;
  const Timeline& timeline_;
  Recorder& recorder_;
  std::int64_t element_bytes_;  // of a gradient
  DType weights_;
  std::vector<std::int64_t> arrived_;  // sizes of gradients, as the first backward made them
  HeldVector buckets_;
  bool constructed_ = false;
  bool rebuilt_ = false;
  bool has_run_ = false;    // a backward
  bool has_views_ = false;  // gradients are there, as views of buckets_
};

}  // namespace memest
