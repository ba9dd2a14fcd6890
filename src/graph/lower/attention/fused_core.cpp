#include "graph/lower/attention/fused_core.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

// flash_api.cpp, mha_bwd: softmax_d, dq_accum, and where heads are grouped dk_expanded and
// dv_expanded, which at::sum_out folds to the stored heads.
void flash_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward) {
  const Dimensions& dims = core.dims;
  // head_size_rounded = round_multiple(head_size, head_size <= 128 ? 32 : 64): 80 channels
  // accumulate as 96, 160 as 192. core.rows is s rounded up to 128.
  constexpr std::int64_t kWideHead = 128;
  const std::int64_t rounded = rounded_up(core.head_dim, core.head_dim > kWideHead ? 64 : 32);
  const Expr d_rounded = rounded == core.head_dim ? dims.d : Expr(rounded);
  std::vector<BackwardWriter::Made> made;
  const auto make = [&](std::string_view name, Shape shape, DType dtype) {
    const TensorId like = scratch(block, {"attention", name}, std::move(shape), dtype);
    made.push_back(backward.make(like, dtype));
  };
  make("row sums", {dims.b, dims.a, core.rows}, DType::fp32);
  make("query gradient in fp32", {dims.b, core.rows, dims.a, d_rounded}, DType::fp32);
  if (core.grouped) {
    const Shape by_query_head = {dims.b, dims.s, dims.a, dims.d};
    make("key gradient by query head", by_query_head, core.dtype);
    make("value gradient by query head", by_query_head, core.dtype);
    KernelLaunch sum;
    sum.outer = dims.b * dims.s * dims.k;
    sum.reduced = dims.a / dims.k;
    sum.inner = dims.d;
    sum.dtype = core.dtype;
    for (int of_key_and_value = 0; of_key_and_value < 2; ++of_key_and_value) backward.launch(sum);
  }
  for (; !made.empty(); made.pop_back()) backward.drop(made.back());
}

// run_cudnn_SDP_bprop (native/cudnn/MHA.cpp) asks the allocator for get_workspace_size() bytes.
// cuDNN's frontend puts an fp32 dQ and one sum a row there: b 1, a 32, s 4096, d 128 are
// 32·4096·129·4 = 67,633,152 B.
void cudnn_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward) {
  const Dimensions& dims = core.dims;
  const TensorId workspace = scratch(block, {"attention", "workspace"},
                                     {dims.b, dims.a, dims.s, dims.d + Expr(1)}, DType::fp32);
  backward.drop(backward.make(workspace, DType::fp32));
}

}  // namespace memest
