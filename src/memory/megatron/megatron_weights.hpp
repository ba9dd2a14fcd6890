// A model's weights as Megatron-core's modules make them on one rank, before its wrappers move them
// into buffers of their own, and what all of its optimizers do with their gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/forward_order.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// A stage of the model as a rank has it.
struct MegatronModel {
  const Job& job;
  const Graph& graph;
  const ForwardOrder& order;
  JobRank rank;  ///< whose shares they are
};

class MegatronWeights {
 public:
  /// `timeline` has the model's tensors.
  MegatronWeights(const MegatronModel& model, const Timeline& timeline);

  /// The parameter's module is on the meta device until materialize().
  void leave_on_meta(std::size_t parameter) { on_meta_[parameter] = true; }
  /// Where it was left there.
  void materialize(std::size_t parameter, Recorder& recorder);
  /// The modules are built on the device but for norms and positions, which follow in fp32,
  /// routers, and what was left on meta.
  void place(const ModelTensors& tensors, Recorder& recorder);
  /// Float16Module.
  void cast(Recorder& recorder);
  /// Copies of the weights that Transformer Engine multiplies in 8 or 4 bits, which the first
  /// forward makes.
  void make_quantized(Recorder& recorder) const;

  [[nodiscard]] std::size_t count() const { return weights_.size(); }
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const;
  [[nodiscard]] std::int64_t elements(std::size_t parameter) const;
  /// Whether its own bytes are fp8's (fp8_param_gather).
  [[nodiscard]] bool in_eight_bits(std::size_t parameter) const;
  /// A buffer has the weight from here on.
  void drop(std::size_t parameter) { weights_[parameter].drop(); }

 private:
  [[nodiscard]] std::int64_t own_bytes(std::size_t parameter) const;
  [[nodiscard]] bool made_on_host(std::size_t parameter) const;
  [[nodiscard]] DType type_on_host(std::size_t parameter) const;
  [[nodiscard]] HeldStorage weight(std::size_t parameter, DType dtype, Recorder& recorder) const;
  void place_buffer(std::size_t buffer, Recorder& recorder) const;

  const Job& job_;
  const Graph& graph_;
  const Timeline& timeline_;
  const Recipe& recipe_;
  std::vector<HeldStorage> weights_;  // by parameter
  std::vector<bool> on_meta_;         // by parameter
};

/// Whether every tensor-parallel rank has a part of the parameter's gradient.
bool summed_over_tensor_ranks(const ParameterTensor& tensor, const Parallelism& parallelism);
/// get_grad_norm_fp32 over gradients of so many elements each.
void take_gradient_norm(const std::vector<std::int64_t>& elements,
                        const std::optional<LaunchDevice>& device, Recorder& recorder);

}  // namespace memest
