// Work between two steps: the optimizer's states and copies, clipping, the gradient scaler.
// Sequences are those of torch.optim and torch.nn.utils, PyTorch 2.11.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/spec/job.hpp"
#include "memory/engine/parameter_group.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class OptimizerRun {
 public:
  /// `device` decides what reductions ask for; nothing where it is not known.
  OptimizerRun(const Job& job, std::vector<ParameterGroup> groups,
               const std::optional<LaunchDevice>& device, Recorder& recorder);

  /// Master copies, and states that the constructor makes.
  void construct();
  /// Answers the norm.
  [[nodiscard]] HeldStorage clip();
  /// Sixteen-bit gradients for a step in the master copies' type; step() does it where it was not
  /// done.
  void widen_gradients();
  /// States in the first step, then the step's temporaries.
  void step();
  /// Releases what lasts from the step to zero_grad.
  void zero_grad();

 private:
  /// The types of gradients of whole modules beside adapters, and of the rest: tensor lists are
  /// multiplied, summed and stepped within one type.
  [[nodiscard]] std::vector<DType> gradient_types() const;
  [[nodiscard]] DType gradient_type(const SteppedTensor& tensor) const;
  /// Gradients that are normed together: all, or those of experts apart from the others.
  enum class Meshes : std::uint8_t { all, of_experts, of_others };
  [[nodiscard]] HeldStorage total_norm(Meshes meshes);
  [[nodiscard]] std::int64_t norm_bytes() const;
  void scale_gradients();
  void take_norms(DType type, Meshes meshes, HeldList& norms);
  HeldList spread_norms(std::int64_t bytes);
  HeldList relaid_gradients(const ParameterGroup& group, bool tables);
  HeldList relaid_gains();
  void read_unreduced(const ParameterGroup& group);
  HeldStorage reduce_norms(std::int64_t bytes);
  void make_maps(const SteppedTensor& tensor);
  void make_states(const ParameterGroup& group);
  void step_lists(const ParameterGroup& group);
  void step_one_by_one(const ParameterGroup& group);
  HeldStorage temporary(const SteppedTensor& tensor);

  // adafactor.cpp
  [[nodiscard]] bool has_trainers_adafactor() const;
  struct AdafactorNames {
    HeldStorage gradient;
    HeldStorage weight;
    HeldStorage update;
  };
  void step_adafactor();
  void step_adafactor(const SteppedTensor& tensor, AdafactorNames& names);
  HeldStorage reduced(const Reduction& reduction, std::int64_t elements);
  HeldStorage root_mean_square(std::int64_t elements, const Label& label);
  HeldStorage factored(std::int64_t rows, std::int64_t columns);

  // fused_adam.cpp
  void make_fused_state(const SteppedTensor& tensor, std::uint16_t index);
  HeldStorage fused_temporary(const SteppedTensor& tensor, std::int64_t bytes);
  void step_fused_adam();

  const TrainingSpec& training_;
  const ImplementationTransient& implementation_;
  std::vector<ParameterGroup> groups_;
  std::optional<LaunchDevice> device_;
  Recorder& recorder_;
  std::map<std::uint32_t, HeldStorage> scales_;  // Adafactor's, by parameter
  HeldVector wide_gradients_;
  int sharded_meshes_ = 0;         // over which gradients are DTensors
  std::int64_t tensor_ranks_ = 1;  // of torchtitan's tensor parallelism, one of the meshes
  bool keeps_unreduced_ = false;   // gradients stay partial sums, and a table's whole
  bool experts_apart_ = false;     // on a mesh of their own
  int expert_meshes_ = 0;          // over which an expert's are DTensors, reduced one by one
  bool has_states_ = false;
  bool has_maps_ = false;
};

}  // namespace memest
