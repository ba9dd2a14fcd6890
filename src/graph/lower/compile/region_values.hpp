// The values that torch.compile sees in a block instead of tensors, and who computes each. Views of
// a value and further casts of it to one type are the value itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "memest/graph/graph.hpp"

namespace memest {

/// Who runs an operation of a compiled region.
enum class Runner : std::uint8_t {
  caller,     ///< eager code, before the region is called
  library,    ///< a kernel of its own: a product, attention, a collective, complex numbers
  generated,  ///< a part of the kernels that Inductor writes
  nobody      ///< another shape of the same elements
};

/// solve_min_cut, get_node_weight (torch/_functorch/partitioners.py): a value costs its bytes so
/// many times for every step that it is from the backward, and twice that where fused kernels alone
/// read it. In tenths.
inline constexpr std::int64_t kTenthsOfStep = 11;
inline constexpr std::int64_t kTenthsOfFused = 20;

/// How a region comes by the block's input.
enum class RegionInput : std::uint8_t {
  argument,  ///< given to it, or made by a library kernel
  sum,       ///< a sum that another block's part of it computes
  addends    ///< such a sum, in whose place the region keeps the addends
};

/// A product whose operands are cast to fp8 beside it.
[[nodiscard]] inline bool is_in_float8(const Op& op) {
  return op.kind == OpKind::linear && op.compute == DType::fp8;
}

/// The values of a block, and which of them the partitioner keeps for the backward
/// (torch/_functorch/partitioners.py, PyTorch 2.11): the inputs of library kernels whose backward
/// reads them; of what generated kernels read in the backward only what is not computed again:
/// results of library kernels, statistics of rows, and what is random.
class RegionValues {
 public:
  /// Gives every value a storage of its own in `block`, but for parts of another, and every
  /// softmax the statistics that its backward can start from.
  RegionValues(Block& block, RegionInput input);

  [[nodiscard]] Runner runner(std::size_t op) const { return runners_[op]; }
  [[nodiscard]] TensorId value(TensorId tensor) const { return values_[tensor]; }
  /// The op of the region that makes the value; none for what the region is given.
  [[nodiscard]] std::optional<std::size_t> maker(TensorId value) const { return makers_[value]; }
  [[nodiscard]] bool is_generated(TensorId value) const {
    return makers_[value] && runners_[*makers_[value]] == Runner::generated;
  }
  [[nodiscard]] bool wants_gradient(TensorId value) const { return wants_gradient_[value]; }
  [[nodiscard]] bool is_kept(TensorId value) const { return kept_[value]; }
  /// A generated kernel's result that products in fp8 alone read: written in fp8, never kept.
  [[nodiscard]] bool is_narrowed(TensorId value) const { return narrowed_[value]; }
  /// A generated kernel's result that is never computed again.
  [[nodiscard]] bool is_remembered(TensorId value) const;
  /// A sum that is not computed again, as it would be far from its addends' other readers.
  [[nodiscard]] bool is_far_sum(TensorId value) const {
    return is_generated(value) && far_sums_[*makers_[value]];
  }
  /// Appends what a kernel that needs `value` in the backward reads, computing it again from that.
  void append_sources(TensorId value, std::vector<TensorId>& sources) const;
  /// Values that the derivative of `op` by its input `value` reads.
  [[nodiscard]] std::vector<TensorId> read_by_derivative(std::size_t op, TensorId value) const;

 private:
  void add_softmax_statistics();
  void keep_normalized_rows();
  void name_runners();
  void name_values();
  void give_storages();
  void find_far_sums();
  void narrow();
  void keep();
  void keep_sources_of_narrowed();
  [[nodiscard]] Runner runner_of(const Op& op) const;
  [[nodiscard]] bool is_sum(TensorId tensor) const;
  [[nodiscard]] bool costs_less(const Tensor& value, const std::vector<TensorId>& sources) const;
  [[nodiscard]] std::size_t first_library_kernel_behind(TensorId value) const;

  Block& block_;
  RegionInput input_;
  std::vector<Runner> runners_;                     // by op
  std::vector<TensorId> values_;                    // by tensor
  std::vector<std::optional<std::size_t>> makers_;  // by tensor
  std::vector<bool> wants_gradient_;                // by tensor
  std::vector<bool> kept_;                          // by tensor
  std::vector<bool> narrowed_;                      // by tensor
  std::vector<bool> far_sums_;                      // by op
};

}  // namespace memest
