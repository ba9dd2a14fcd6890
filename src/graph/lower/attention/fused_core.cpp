#include "graph/lower/attention/fused_core.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

std::int64_t rounded_up_to(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

// round_multiple(head_size, head_size <= 128 ? 32 : 64)
Expr accumulated_width(const Dimensions& dims, std::int64_t head_dim) {
  constexpr std::int64_t kWideHead = 128;
  const std::int64_t rounded = rounded_up_to(head_dim, head_dim > kWideHead ? 64 : 32);
  return rounded == head_dim ? dims.d : Expr(rounded);
}

// flash_api.cpp, mha_bwd: softmax_d, dq_accum, and where heads are grouped dk_expanded and
// dv_expanded, which at::sum_out folds to the stored heads.
void flash_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward) {
  const Dimensions& dims = core.dims;
  const Expr d_rounded = accumulated_width(dims, core.head_dim);
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

FusedCore half_of(FusedCore core) {
  core.dims.s = core.dims.s / Expr(2);
  core.rows = core.rows / Expr(2);
  return core;
}

void fused_backward(BlockBuilder& block, const FusedCore& core, BackwardWriter& backward) {
  if (core.kernel == AttentionKernel::sdpa_flash) return flash_backward(block, core, backward);
  cudnn_backward(block, core, backward);
}

std::int64_t flash_splits(const DecoderContext& context) {
  const LoweringPolicy& policy = context.policy;
  const SoftmaxAttention& spec = context.attention;
  constexpr std::int64_t kRows = 64;
  constexpr float kFilled = 0.8F;
  constexpr float kNearlyBest = 0.85F;
  const std::int64_t columns = spec.head_dim <= 64 ? 256 : spec.head_dim <= 128 ? 128 : 64;
  const std::int64_t parts = rounded_up_to(context.tokens(), columns) / columns;
  // mha_fwd, seqlenq_ngroups_swapped: the query heads that share keys are the rows of one token.
  const bool swaps = policy.seq_len == 1 && spec.heads > spec.kv_heads && spec.head_dim % 8 == 0;
  const std::int64_t rows = swaps ? spec.heads / spec.kv_heads : policy.seq_len;
  const std::int64_t heads = swaps ? spec.kv_heads : spec.heads;
  const std::int64_t blocks = checked_multiply(checked_multiply(policy.micro_batch, heads),
                                               rounded_up_to(rows, kRows) / kRows);
  const std::int64_t slots = 2 * policy.multiprocessors;
  // 132 multiprocessors count as 264 slots: b 1, a 32, s 4096 fill them with 32·64 = 2048 blocks
  // and are not split; b 1, a 8, s 1024 have 128, and keys of d 128 are split in two.
  if (static_cast<float>(blocks) >= kFilled * static_cast<float>(slots)) return 1;
  const auto per_split = [parts](std::int64_t splits) { return (parts + splits - 1) / splits; };
  std::vector<float> filled;  // by splits, from 1 on; 0 where one split fewer does as well
  for (std::int64_t splits = 1; splits <= std::min({std::int64_t{128}, slots, parts}); ++splits) {
    const bool new_size = splits == 1 || per_split(splits) != per_split(splits - 1);
    const float waves = static_cast<float>(blocks * splits) / static_cast<float>(slots);
    filled.push_back(new_size ? waves / std::ceil(waves) : 0.0F);
  }
  if (filled.empty()) return 1;
  const float best = *std::max_element(filled.begin(), filled.end());
  const auto first = std::find_if(filled.begin(), filled.end(),
                                  [&](float one) { return one > 0 && one >= kNearlyBest * best; });
  return first - filled.begin() + 1;
}

}  // namespace memest
