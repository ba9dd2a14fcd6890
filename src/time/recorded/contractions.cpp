#include "time/recorded/contractions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "time/laws/nearest_fit.hpp"

namespace memest {
namespace {

/// No law of int8 products is measured: one of 16-bit operands is no faster.
DType priced_type(DType type) {
  return type == DType::int8 || type == DType::uint8 || type == DType::int32 ? DType::fp16 : type;
}

/// Operators of fused attention with the positions of their arguments (aten/src/ATen/native/
/// native_functions.yaml). Tensors are [batch, seq_len, heads, head_dim], of cuDNN's [batch, heads,
/// seq_len, head_dim], and of packed sequences [tokens, heads, head_dim].
struct AttentionOperator {
  std::string_view name;
  std::string_view kernel;
  KernelPass pass;
  std::size_t query;   ///< keys and values follow
  std::size_t starts;  ///< of packed sequences
  std::size_t causal;
  bool heads_first = false;
};
constexpr std::array kAttentions = {
    AttentionOperator{"aten::_flash_attention_forward", kFlashAttention2, KernelPass::forward, 0, 3,
                      8},
    AttentionOperator{"aten::_flash_attention_backward", kFlashAttention2, KernelPass::backward, 1,
                      6, 11},
    AttentionOperator{"aten::_efficient_attention_forward", kFlashAttention2, KernelPass::forward,
                      0, 4, 9},
    AttentionOperator{"aten::_efficient_attention_backward", kFlashAttention2, KernelPass::backward,
                      1, 6, 14},
    AttentionOperator{"aten::_cudnn_attention_forward", "", KernelPass::forward, 0, 4, 10, true},
    AttentionOperator{"aten::_cudnn_attention_backward", "", KernelPass::backward, 1, 9, 14, true},
    AttentionOperator{"aten::_scaled_dot_product_cudnn_attention", "", KernelPass::forward, 0, 3, 6,
                      true},
    AttentionOperator{"aten::_scaled_dot_product_cudnn_attention_backward", "",
                      KernelPass::backward, 1, 9, 13, true}};

/// [batch, seq_len, heads, head_dim].
struct AttentionHeads {
  std::int64_t batch = 1;
  std::int64_t seq_len = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

std::optional<AttentionHeads> heads_of(const std::vector<RecordedTensor>& tensors, bool heads_first,
                                       std::int64_t sequences) {
  if (tensors.size() != 1) return {};
  const std::vector<std::int64_t>& shape = tensors.front().shape;
  if (shape.size() == 3) {
    const std::int64_t each = sequences > 0 ? shape[0] / sequences : shape[0];
    return AttentionHeads{std::max<std::int64_t>(sequences, 1), each, shape[1], shape[2]};
  }
  if (shape.size() != 4) return {};
  if (heads_first) return AttentionHeads{shape[0], shape[2], shape[1], shape[3]};
  return AttentionHeads{shape[0], shape[1], shape[2], shape[3]};
}

Flops product_of(const std::vector<std::int64_t>& factors) {
  Flops flops(2);
  for (const std::int64_t factor : factors) flops = flops * factor;
  return flops;
}

const std::vector<std::int64_t>& sizes_of(const RecordedOperator& op, std::size_t argument) {
  static const std::vector<std::int64_t> none;
  const std::vector<RecordedTensor>& tensors = op.tensors(argument);
  return tensors.empty() ? none : tensors.front().shape;
}

/// The product that a convolution lowers to: [pixels, taps] · [taps, channels] for each group.
std::optional<MatmulShape> lowered(const RecordedTensor& pixels, const RecordedTensor& weight,
                                   std::int64_t groups) {
  if (weight.shape.size() < 3 || weight.shape[0] == 0 || groups == 0) return {};
  const std::int64_t channels = weight.shape[0];
  return MatmulShape{.operand = weight.dtype,
                     .result = weight.dtype,
                     .batch = groups,
                     .m = pixels.elements() / channels,
                     .n = channels / groups,
                     .k = weight.elements() / channels};
}

}  // namespace

MatmulShape product_shape(const RecordedProduct& product) {
  MatmulShape shape{.operand = priced_type(product.operand),
                    .result = product.result,
                    .tensor_float = product.tensor_float,
                    .accumulates = product.accumulates,
                    .batch = product.batch,
                    .m = product.n,
                    .n = product.m,
                    .k = product.k};
  if (product.operand == DType::fp8) shape.scaling = OperandScaling::per_tensor;
  if (product.transposes_a) return shape;  // rows times a weight that lies as [out, in]
  shape.pass = product.transposes_b ? MatmulPass::weight_gradient : MatmulPass::data_gradient;
  if (product.transposes_b) std::swap(shape.m, shape.n);  // dW[k, n] of MatmulShape
  return shape;
}

Flops exact_flops(const MatmulShape& shape) {
  return product_of({shape.batch, shape.m, shape.n, shape.k});
}

std::optional<Contraction> attention_of(const RecordedOperator& op) {
  const auto* const row = std::ranges::find(kAttentions, op.name, &AttentionOperator::name);
  if (row == kAttentions.end()) return {};
  const std::vector<RecordedTensor>& starts = op.tensors(row->starts);
  const std::int64_t sequences = starts.empty() ? 0 : starts.front().elements() - 1;
  const auto query = heads_of(op.tensors(row->query), row->heads_first, sequences);
  const auto key = heads_of(op.tensors(row->query + 1), row->heads_first, sequences);
  const auto value = heads_of(op.tensors(row->query + 2), row->heads_first, sequences);
  if (!query || !key || !value) return {};
  AttentionShape shape{.kernel = std::string(row->kernel),
                       .dtype = op.tensors(row->query).front().dtype,
                       .pass = row->pass,
                       .causal = op.number(row->causal) != 0,
                       .batch = query->batch,
                       .heads = query->heads,
                       .kv_heads = key->heads,
                       .head_dim = query->head_dim,
                       .value_head_dim = value->head_dim};
  // A law knows sequences as long as their keys: of others those with as many scores.
  const double scores = static_cast<double>(query->seq_len) * static_cast<double>(key->seq_len);
  shape.seq_len = std::llround(std::sqrt(scores));
  const Flops one =
      product_of({query->batch, query->heads, query->seq_len, key->seq_len, query->head_dim});
  const Flops other =
      product_of({query->batch, query->heads, query->seq_len, key->seq_len, value->head_dim});
  // Backward the scores again, and the gradients of queries and keys, of values and of scores.
  const Flops flops = row->pass == KernelPass::forward ? one + other : 3 * one + 2 * other;
  return Contraction{shape, flops};
}

std::optional<Contraction> convolution_of(const RecordedOperator& op) {
  const bool is_backward = op.name.find("convolution_backward") != std::string_view::npos;
  if (op.name.find("conv") == std::string_view::npos) return {};
  const std::size_t weight_at = is_backward ? 2 : 1;
  if (op.tensors(weight_at).size() != 1 || op.results.empty()) return {};
  const RecordedTensor& weight = op.tensors(weight_at).front();
  const RecordedTensor* pixels =
      is_backward && !op.tensors(0).empty() ? &op.tensors(0).front() : &op.results.front();
  const std::vector<std::int64_t>& image = sizes_of(op, is_backward ? 1 : 0);
  if (image.size() < 3 || weight.shape.size() < 3 || weight.shape[1] == 0) return {};
  const bool transposed =
      op.name.find("transpose") != std::string_view::npos || (is_backward && op.number(7) != 0);
  // ConvTranspose2d's weight is [in, out / groups, ...]: its pixels are the input's.
  if (transposed && !is_backward) pixels = &op.tensors(0).front();
  if (transposed && is_backward) pixels = &op.tensors(1).front();
  const std::int64_t channels = transposed ? pixels->shape[1] : image[1];
  const std::int64_t groups =
      std::max<std::int64_t>(transposed ? 1 : channels / weight.shape[1], 1);
  const auto shape = lowered(*pixels, weight, groups);
  if (!shape) return {};
  // The gradients of the image and of the weight are a product each; a bias's is none.
  std::int64_t products = 1;
  if (is_backward) {
    products = std::ranges::count_if(
        op.results, [](const RecordedTensor& result) { return result.shape.size() >= 3; });
  }
  MatmulShape all = *shape;
  all.batch = checked_multiply(all.batch, std::max<std::int64_t>(products, 1));
  return Contraction{all, exact_flops(all)};
}

std::optional<Contraction> grouped_product_of(const RecordedOperator& op) {
  if (op.name != "aten::_grouped_mm" || op.tensors(0).size() != 1 || op.results.size() != 1) {
    return {};
  }
  const std::vector<std::int64_t>& left = sizes_of(op, 0);
  const std::vector<std::int64_t>& right = sizes_of(op, 1);
  if (left.size() < 2 || right.size() < 2) return {};
  const DType type = op.tensors(0).front().dtype;
  MatmulShape shape{.operand = type, .result = type};
  if (right.size() == 3) {  // [tokens, k] · [groups, k, n]
    shape.batch = std::max<std::int64_t>(right[0], 1);
    shape.m =
        std::max<std::int64_t>(left[left.size() - 2] / (left.size() == 2 ? shape.batch : 1), 1);
    shape.k = left.back();
    shape.n = right.back();
    const std::int64_t rows = left.size() == 2 ? left[0] : checked_multiply(left[0], left[1]);
    return Contraction{shape, product_of({rows, shape.k, shape.n})};
  }
  // [m, tokens] · [tokens, n] to [groups, m, n]: the gradient of the weights.
  const RecordedTensor& result = op.results.front();
  if (result.shape.size() != 3 || result.shape[0] == 0) return {};
  shape.pass = MatmulPass::weight_gradient;
  shape.batch = result.shape[0];
  shape.m = left[0];
  shape.n = right.back();
  shape.k = std::max<std::int64_t>(left.back() / shape.batch, 1);
  return Contraction{shape, product_of({left[0], left.back(), shape.n})};
}

}  // namespace memest
