// Products in fp8 within a compiled region (torchao's Float8Linear under Inductor). Each pass casts
// anew in the kernels between products, so that nothing in fp8 is kept, and an input that such
// kernels make is not kept either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/lower/compile/generated_kernels.hpp"
#include "graph/lower/compile/region_values.hpp"
#include "memest/graph/lower.hpp"

namespace memest {

/// Decides, beside the region itself, which kernels cast.
struct Float8Region {
  RunsAgain runs_again = RunsAgain::nothing;
  bool by_rows = false;  ///< a scale a row or column, not a tensor
};

[[nodiscard]] inline Float8Region region_of(const LoweringPolicy& policy) {
  return {.runs_again = policy.runs_again,
          .by_rows = policy.float8 && policy.float8->recipe != Float8Recipe::tensorwise};
}

class Float8InRegion {
 public:
  /// The references outlive this.
  Float8InRegion(Block& block, const RegionValues& values, const GeneratedKernels& kernels,
                 const Float8Region& region)
      : block_(block), values_(values), kernels_(kernels), region_(region) {}

  /// Where products in fp8 read the result of `kernel`, which is written as `op`: the results in
  /// fp8, and in its backward the gradients of the products' weights, whose other factor it makes
  /// again.
  void write_kernel(const GeneratedKernel& kernel, Op& op);
  /// The product numbered `at`, whose first gradient is that of its input.
  void write_product(Op& op, std::size_t at);

 private:
  /// The tensor that a product reads of the kernel that makes its input, and the place where its
  /// output's gradient waits until that kernel makes the input again.
  struct Names {
    TensorId copy = 0;
    TensorId waiting = 0;
  };
  class Backward;

  [[nodiscard]] bool is_gathered_in_fp8(TensorId weight) const {
    return block_.tensors[weight].dtype == DType::fp8;
  }
  [[nodiscard]] TensorId input_of(std::size_t product) const;
  [[nodiscard]] TensorId weight_of(std::size_t product) const;
  [[nodiscard]] std::vector<std::size_t> products() const;
  [[nodiscard]] std::vector<std::size_t> readers_of(TensorId value) const;
  [[nodiscard]] bool gives_the_result(std::size_t product) const;
  [[nodiscard]] bool casts_gradient_late(std::size_t product) const;
  [[nodiscard]] std::size_t count_scales() const;
  [[nodiscard]] std::vector<TensorId> inputs_of_kept() const;
  [[nodiscard]] bool has_gradient_beside(TensorId value) const;
  [[nodiscard]] Expr bytes_in_fp8(TensorId id) const { return block_.tensors[id].elements(); }
  [[nodiscard]] Expr traffic_of_cast(TensorId id) const;
  TensorId name(TensorId like, TensorId storage);
  void write_forward(Op& op, bool made_in_fp8);
  void write_kernels_backward(const GeneratedKernel& kernel, Op& op, bool for_each);
  std::vector<std::uint8_t> make_wide_gradients(const GeneratedKernel& kernel, Op& op) const;
  void add_casts_of_recomputed(const GeneratedKernel& kernel, Op& op);
  void keep_scales(Op& op);
  bool keep_weight_by_columns(Op& op, std::size_t at);

  Block& block_;
  const RegionValues& values_;
  const GeneratedKernels& kernels_;
  Float8Region region_;
  std::map<std::size_t, Names> names_;  // by op of the region
};

}  // namespace memest
