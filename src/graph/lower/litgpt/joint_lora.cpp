#include <array>
#include <ranges>
#include <utility>
#include <vector>

#include "graph/lower/adapters/adapter_names.hpp"
#include "graph/lower/litgpt/litgpt.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

constexpr AdapterNames kNames = adapter_names<"qkv_proj">();

/// F.conv1d(input, weight): of [b, r, s] by [w, r], which cuDNN takes copied where it does not lie
/// by channels.
TensorId convolved(BlockBuilder& block, TensorId input, TensorId filters, const Shape& shape) {
  const TensorId weight = to_compute(block, kNames.b, filters);
  const DType dtype = block.dtype_of(input);
  const TensorId packed =
      scratch(block, {kNames.b, "packed input"}, block.tensor(input).shape, dtype);
  const TensorId out = block.make({kNames.b, "part"}, shape, dtype);
  Op op;
  op.kind = OpKind::linear;
  op.name = kNames.b;
  op.compute = dtype;
  op.inputs = {input, weight};
  op.outputs = {out};
  op.saved = {input, weight};
  op.forward_scratch = {packed};
  BackwardWriter backward(op);
  const auto input_again = backward.make(input, dtype);
  const auto packed_gradient = backward.make(out, dtype);
  const auto of_input = backward.make(input, dtype);
  const auto of_weight = backward.make(weight, dtype);
  backward.drop(packed_gradient);
  backward.drop(input_again);
  backward.give(input, of_input);
  backward.give(weight, of_weight);
  const Expr flops = Expr(2) * block.tensor(input).elements() * block.tensor(weight).shape.front();
  block.emit(std::move(op), {flops, Expr(2) * flops});
  return out;
}

/// Widths of those of queries, keys and values that are adapted.
std::vector<Expr> adapted_widths(const DecoderContext& context) {
  const DecoderNames& names = context.names;
  const Dimensions& dims = context.dims;
  const auto is_target = [&](std::string_view module) { return adapts(*context.adapter, module); };
  const bool whole = is_target(names.qkv);
  std::vector<Expr> widths;
  if (whole || is_target(names.q)) widths.push_back(dims.a * dims.d);
  if (whole || is_target(names.k)) widths.push_back(dims.k * dims.d);
  if (whole || is_target(names.v)) widths.push_back(dims.k * dims.d);
  return widths;
}

class JointLora {
 public:
  JointLora(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape)
      : block_(block),
        context_(context),
        dims_(context.dims),
        shape_(shape),
        widths_(adapted_widths(context)) {
    for (const Expr& width : widths_) adapted_ = adapted_ + width;
  }

  TensorId write(const Rows& rows) {
    Frame function(block_);
    function.local(rows.x);
    const TensorId pretrained = function.local(base_projection(block_, context_, shape_, rows));
    const TensorId narrow = function.local(after_a(rows));
    const TensorId update = function.local(after_b(narrow));
    const TensorId padded = widths_.size() == kParts ? update : zero_padded(update);
    const TensorId scaled = function.local(scale(block_, {kNames.b, "scaled"}, padded));
    return add(block_, {kNames.sum, "sum"}, pretrained, scaled);
  }

 private:
  static constexpr std::size_t kParts = 3;

  [[nodiscard]] Expr rank() const { return {context_.adapter->rank}; }
  [[nodiscard]] Expr count() const { return {static_cast<std::int64_t>(widths_.size())}; }

  /// F.linear(self.lora_dropout(x), self.lora_A), of all parts.
  TensorId after_a(const Rows& rows) {
    const TensorId input =
        dropout(block_, kNames.sum, context_.dropout(context_.adapter->dropout), rows.x);
    Frame call(block_);
    call.local(input);
    const Expr out = count() * rank();
    const TensorId weight = block_.trained_parameter({kNames.a, "weight"}, {out, shape_.in});
    return product_with(block_, {kNames.a, shape_.in, out}, {weight, {}}, {rows.shape, input});
  }

  /// conv1d(after_A.transpose(-2, -1), lora_B.unsqueeze(-1)).transpose(-2, -1): one call of as many
  /// groups where all heads have keys and values of their own, else one for each part.
  TensorId after_b(TensorId narrow) {
    const Shape channels = {dims_.b, count() * rank(), dims_.s};
    // The gradient of a transposed view lies by channels, which the rows of several sequences
    // cannot show.
    const Place place{kNames.a, "by channels"};
    const TensorId input = context_.policy.micro_batch > 1
                               ? view_copied_back(block_, place, narrow, channels)
                               : view(block_, place, narrow, channels);
    const Shape filters = {adapted_, rank(), Expr(1)};
    const TensorId weight =
        view(block_, {kNames.b, "filters"},
             block_.trained_parameter({kNames.b, "weight"}, {adapted_, rank()}), filters);
    const Shape whole = {dims_.b, adapted_, dims_.s};
    const SoftmaxAttention& attention = context_.attention;
    const TensorId out = attention.heads == attention.kv_heads
                             ? convolved(block_, input, weight, whole)
                             : by_parts(input, weight, whole);
    return view(block_, {kNames.b, "by tokens"}, out, {dims_.b, dims_.s, adapted_});
  }

  TensorId by_parts(TensorId input, TensorId weight, const Shape& whole) {
    std::vector<SplitPart> channels;
    std::vector<SplitPart> rows;
    for (const Expr& width : widths_) {
      channels.push_back({{kNames.a, "part"}, {dims_.b, rank(), dims_.s}});
      rows.push_back({{kNames.b, "rows"}, {width, rank(), Expr(1)}});
    }
    const std::vector<TensorId> inputs = split(block_, kNames.a, input, channels);
    const std::vector<TensorId> weights = split(block_, kNames.b, weight, rows);
    std::vector<TensorId> parts;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      parts.push_back(convolved(block_, inputs[i], weights[i], {dims_.b, widths_[i], dims_.s}));
    }
    Frame list(block_);
    for (const TensorId part : parts | std::views::reverse) list.local(part);
    return concatenate(block_, {kNames.b, "parts"}, {parts}, whole);
  }

  /// result.index_copy_(-1, self.lora_ind, x), of zeros and a copy of the buffer of numbers.
  TensorId zero_padded(TensorId x) {
    const Shape whole = {dims_.b, dims_.s, shape_.out};
    const TensorId out = block_.make({kNames.b, "padded"}, whole, block_.dtype_of(x));
    const TensorId index = block_.make({kNames.b, kAdaptedChannels}, {adapted_}, DType::int64);
    Op op;
    op.kind = OpKind::copy;
    op.name = kNames.b;
    op.inputs = {x};
    op.outputs = {out, index};
    // derivatives.yaml, index_copy: grad.index_select(dim, index).expand_as(source) keeps both.
    op.saved = {index, x};
    BackwardWriter backward(op);
    backward.give(x, backward.make(x, block_.dtype_of(x)));
    block_.emit(std::move(op));
    return out;
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
  const Projection2d& shape_;
  std::vector<Expr> widths_;  // of the parts that are adapted
  Expr adapted_;
};

}  // namespace

bool adapts_joint_parts(const DecoderContext& context) {
  return context.adapter != nullptr && context.program.adapts_joint_parts &&
         !adapted_widths(context).empty();
}

TensorId joint_lora(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                    const Rows& rows) {
  return JointLora(block, context, shape).write(rows);
}

}  // namespace memest
