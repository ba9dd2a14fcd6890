// The kernels that Inductor writes for a compiled region: which operations each fuses, and what its
// backward makes of which kept values.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/lower/compile/region_values.hpp"

namespace memest {

/// Gradients of a kernel's inputs that are one tensor.
struct FusedGradient {
  TensorId like = 0;             ///< the element count and type of the gradient
  TensorId ends_at = 0;          ///< where the inputs' way to the result stops being a sum
  std::vector<TensorId> inputs;  ///< that it belongs to
  std::vector<TensorId> reads;   ///< of what is kept
};

struct GeneratedKernel {
  TensorId result = 0;
  /// Computed again by each kernel that reads it: it has a gradient, but no kernel writes it.
  bool is_joint = false;
  std::vector<std::size_t> ops;     ///< of the region, in order
  std::vector<TensorId> reads;      ///< values in memory
  std::vector<TensorId> remembers;  ///< results beside, made here first
  std::vector<FusedGradient> gradients;
  bool is_elementwise = true;  ///< reads and writes element by element

  /// Kept tensors that its backward reads, each once.
  [[nodiscard]] std::vector<TensorId> kept() const;
};

/// The kernels of a region in the order in which they are asked for: before each library kernel
/// what that reads, the region's result last. A value that several would compute on their own is a
/// joint: they hand their gradients to it. Joints stand before the first kernel that reads them.
class GeneratedKernels {
 public:
  GeneratedKernels(const Block& block, const RegionValues& values);

  /// The index of the kernel whose result is `value`; none where no kernel makes it.
  [[nodiscard]] std::vector<std::size_t> needed_for(TensorId value) const;
  [[nodiscard]] const GeneratedKernel& kernel(std::size_t index) const { return list_[index]; }
  [[nodiscard]] std::size_t size() const { return list_.size(); }

 private:
  void find_results();
  void find_joints();
  void write(TensorId result, bool is_joint);
  void write_gradients(GeneratedKernel& kernel) const;
  [[nodiscard]] FusedGradient gradient_of(const GeneratedKernel& kernel, TensorId input) const;
  [[nodiscard]] TensorId end_of_sums(const GeneratedKernel& kernel, TensorId input) const;
  /// Ops behind `value` up to what is in memory and, where `stops`, to other joints.
  [[nodiscard]] std::vector<std::size_t> cone(TensorId value, bool stops) const;
  [[nodiscard]] bool is_in_memory(TensorId value) const;
  [[nodiscard]] bool is_joint(TensorId value) const;

  const Block& block_;
  const RegionValues& values_;
  std::vector<TensorId> results_;
  std::vector<TensorId> joints_;
  std::vector<GeneratedKernel> list_;
};

}  // namespace memest
