// What Megatron-core keeps of a model on one rank: weights as its modules make them, the flat
// buffers of its DistributedDataParallel, and the optimizer's main copies and states. Megatron-core
// 0.16.1 with torch's AdamW (no Apex, no Transformer Engine), PyTorch 2.11.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "flat_buffer.hpp"
#include "forward_order.hpp"
#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "model_tensors.hpp"
#include "optimizer_run.hpp"
#include "recorder.hpp"

namespace memest {

class MegatronStates {
 public:
  /// `timeline` has the model's tensors.
  MegatronStates(const Job& job, const Graph& graph, const ForwardOrder& order,
                 const Timeline& timeline);

  /// The modules are built on the device but for norms and positions, which follow in fp32.
  void place(const ModelTensors& tensors, Recorder& recorder);
  /// Float16Module, then the buffers of every model chunk.
  void make_buffers(Recorder& recorder);
  void make_main_params(const std::optional<LaunchDevice>& device, Recorder& recorder);
  void zero_grad() { optimizer_->zero_grad(); }
  /// Gradients are copied where they are not of the main copies' type, clipped, and stepped.
  void step(Recorder& recorder);
  /// Elements of the parameters that sequence parallelism has on shards of the sequence.
  [[nodiscard]] std::int64_t sequence_elements() const;

 private:
  /// A model chunk: parameters [begin, end) of the timeline's.
  struct Chunk {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const;
  [[nodiscard]] std::int64_t elements(std::size_t parameter) const;
  [[nodiscard]] bool made_on_host(std::size_t parameter) const;
  [[nodiscard]] std::vector<FlatShard> stepped() const;
  StorageId weight(std::size_t parameter, DType dtype, Recorder& recorder) const;
  void place_frequencies(std::size_t buffer, Recorder& recorder) const;
  void clip(Recorder& recorder);
  StorageId norm_of(std::int64_t elements, Recorder& recorder) const;

  const Job& job_;
  const Graph& graph_;
  const Timeline& timeline_;
  const Recipe& recipe_;
  FlatRules rules_;
  std::vector<Chunk> chunks_;
  std::vector<FlatBuffer> buffers_;            // by chunk
  std::vector<StorageId> weights_;             // by parameter
  std::deque<ParameterTensor> shards_;         // what the optimizer sees
  std::vector<std::int64_t> normed_elements_;  // of the gradients that are clipped by
  std::optional<OptimizerRun> optimizer_;
  std::optional<LaunchDevice> device_;
};

}  // namespace memest
