// Tensors that Megatron-core keeps of a model on one rank: weights as its modules make them, flat
// buffers of its DistributedDataParallel, and the optimizer's main copies and states. Megatron-core
// 0.16.1 with torch's AdamW (no Apex, no Transformer Engine), PyTorch 2.11.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/megatron/megatron_weights.hpp"
#include "memory/optimizer/optimizer_run.hpp"
#include "memory/optimizer/stepped_states.hpp"
#include "memory/states/flat_buffer.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class MegatronStates final : public SteppedStates {
 public:
  /// `timeline` has the model's tensors.
  MegatronStates(const MegatronModel& model, const Timeline& timeline);

  /// The model's own weights, which this makes and casts.
  [[nodiscard]] MegatronWeights& weights() { return weights_; }
  /// Float16Module, then the buffers of every model chunk.
  void make_buffers(Recorder& recorder);
  void make_main_params(const std::optional<LaunchDevice>& device, Recorder& recorder);
  /// Elements of what a data rank steps, tensor by tensor, parameter group by parameter group.
  [[nodiscard]] std::vector<std::int64_t> stepped_elements(std::int64_t data_rank) const;
  void zero_grad() override;
  /// Gradients are copied where they are not of the main copies' type, clipped, and stepped.
  void step(Recorder& recorder) override;
  /// Elements of the parameters whose gradients tensor-parallel ranks have parts of: what sequence
  /// parallelism has on shards of the sequence, and norms of a rank's own heads.
  [[nodiscard]] std::int64_t tensor_summed_elements() const override;

 private:
  /// Parameters of a model chunk that lie flat together: its experts', whose replicas are fewer
  /// where other ranks have other experts, and the rest.
  struct Buffer {
    bool of_experts = false;
    bool in_eight_bits = false;           // weights whose own bytes are fp8's (fp8_param_gather)
    std::vector<std::size_t> parameters;  // of the timeline's
    FlatBuffer flat;
  };

  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const {
    return weights_.row(parameter);
  }
  [[nodiscard]] std::int64_t elements(std::size_t parameter) const {
    return weights_.elements(parameter);
  }
  [[nodiscard]] bool has_weight_buffer(const Buffer& buffer) const;
  void lay_out_chunk(std::size_t chunk, std::size_t begin, std::size_t end);
  [[nodiscard]] std::int64_t bucket_of(std::size_t chunk) const;
  [[nodiscard]] std::vector<FlatShard> stepped(bool experts, std::int64_t data_rank) const;
  void make_optimizer(bool experts, Recorder& recorder);

  const Job& job_;
  const Recipe& recipe_;
  bool distributed_;
  JobRank rank_;
  MegatronWeights weights_;
  std::vector<Buffer> buffers_;                             // chunk by chunk, experts last
  std::deque<ParameterTensor> shards_;                      // what the optimizer sees
  std::vector<std::vector<std::int64_t>> normed_elements_;  // of gradients normed together
  std::deque<OptimizerRun> optimizers_;                     // of experts their own
  std::optional<LaunchDevice> device_;
};

}  // namespace memest
