// A frozen model that fully_shard (FSDP2) makes one unit of, as trl 1.16's prepare_fsdp does with a
// reference (trl/models/utils.py); PyTorch 2.11.
//
//   place    What it finds on the host goes to the GPU whole, buffers behind it; each share is
//            copied out of it, and all of it goes.
//   forward  All weights are gathered, in streams of the unit's own, and copied out of what they
//            came in, which stays until the model has answered; they go when its own forward has
//            run, before its answers are cast.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/block_hooks.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class WholeUnit final : public BlockHooks {
 public:
  /// The reference of a job whose shards are of rows.
  WholeUnit(const Graph& graph, const Job& job, Recorder& recorder);

  void place();

  void before_forward(std::uint32_t instance) override;
  void after_forward(std::uint32_t) override {}
  void before_answer_cast() override;
  void after_answer() override;
  void before_backward(std::uint32_t) override {}
  void after_backward(std::uint32_t) override {}
  bool take_gradient(std::uint32_t, StorageId) override { return false; }
  void end_backward() override {}
  void drop_gradients() override {}

 private:
  struct Elements {
    std::int64_t whole = 0;
    std::int64_t share = 0;
  };

  [[nodiscard]] HeldStorage make(Holding holding, std::int64_t elements, DType type,
                                 Stream stream = Stream::compute);

  const Inventory& inventory_;
  Recorder& recorder_;
  DType stored_;
  DType gathered_;
  std::int64_t ranks_;
  std::int64_t multiprocessors_;  // 0: not known
  bool reshards_;
  std::vector<Elements> parameters_;  // in the order of Module.parameters()
  HeldStorage output_;                // that the weights came in
  HeldVector weights_;
};

}  // namespace memest
