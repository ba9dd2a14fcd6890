// The tables of ALiBi's biases (transformers, build_alibi_tensor and build_mpt_alibi_tensor).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/positions.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

constexpr std::string_view kAlibi = "alibi";

class AlibiWriter {
 public:
  AlibiWriter(BlockBuilder& block, const DecoderContext& context)
      : block_(block), context_(context), frame_(block), heads_(context.attention.heads) {}

  /// slopes · (running sum of the mask - 1) · mask, with a mask of `tokens`.
  /// BLOOM calls it with a mask of torch.ones, fp32; Falcon with one of int64 and slopes[...,
  /// None].bfloat16().
  void write_by_mask(DType tokens) {
    const Dimensions& dims = context_.dims;
    const TensorId mask = mask_of_ones(block_, context_, tokens);
    const TensorId slopes = slopes_of_heads();
    const TensorId counts = running_sum(block_, context_, kAlibi, mask);
    const TensorId from_zero =
        compute(block_, OpKind::add, {counts}, {{kAlibi, "from zero"}, dims.rows(), tokens});
    const TensorId positions = frame_.local(compute(block_, OpKind::multiply, {from_zero, mask},
                                                    {{kAlibi, "positions"}, dims.rows(), tokens}));
    // Falcon multiplies bfloat16 slopes by int64 positions, and a product with integers stays
    // bfloat16.
    const bool integers = tokens == DType::int64;
    const TensorId factors =
        integers ? compute(block_, OpKind::cast, {slopes},
                           {{kAlibi, "slopes in bf16"}, {Expr(heads_)}, DType::bf16})
                 : slopes;
    const Shape shape = {dims.b, dims.a, dims.s};
    const DType dtype = integers ? DType::bf16 : DType::fp32;
    const TensorId biases = frame_.local(compute(block_, OpKind::multiply, {factors, positions},
                                                 {{kAlibi, "biases"}, shape, dtype}));
    // .to(dtype) is no copy where the biases have the type already: fp32 BLOOM, bf16 Falcon.
    block_.outlive(cast(block_, {kAlibi, "in type"}, biases, context_.policy.weights), kAlibi);
  }

  /// slopes · positions up to the last one that the config knows.
  /// build_mpt_alibi_tensor is called with the config's max_seq_len, not with the batch's length:
  /// 32 heads of 2048 positions are 32·2048·4 B, whatever s is.
  void write_by_position() {
    const Expr positions(context_.decoder.max_positions);
    const Expr slopes(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads_))));
    const TensorId distances = frame_.local(
        compute(block_, OpKind::copy, {}, {{kAlibi, "distances"}, {positions}, DType::int32}));
    const TensorId counted =
        compute(block_, OpKind::copy, {}, {{kAlibi, "heads"}, {slopes}, DType::int64});
    // torch.arange(1, n + 1, dtype=torch.int64).float(): two tensors.
    const TensorId in_fp32 = compute(block_, OpKind::cast, {counted},
                                     {{kAlibi, "heads in fp32"}, {slopes}, DType::fp32});
    const TensorId exponents = frame_.local(
        compute(block_, OpKind::scale, {in_fp32}, {{kAlibi, "exponents"}, {slopes}, DType::fp32}));
    const TensorId powers = two_to_the(exponents);
    const TensorId inverse =
        compute(block_, OpKind::power, {powers}, {{kAlibi, "inverse"}, {slopes}, DType::fp32});
    TensorId factors = compute(block_, OpKind::scale, {inverse, powers},
                               {{kAlibi, "slopes"}, {slopes}, DType::fp32});
    // torch.concat([slopes[:, 1::2], slopes[:, ::2]]) writes all of them out, and [:, :num_heads]
    // is a view: 48 heads hold 64 slopes.
    if (slopes != Expr(heads_)) {
      factors = compute(block_, OpKind::concatenate, {factors},
                        {{kAlibi, "every second"}, {slopes}, DType::fp32});
    }
    frame_.local(factors);
    const TensorId biases =
        compute(block_, OpKind::multiply, {distances, factors},
                {{kAlibi, "biases"}, {context_.dims.a, Expr(1), positions}, DType::fp32});
    block_.outlive(biases, kAlibi);
  }

 private:
  /// The base goes to the device as a number of its own, after the result is made.
  TensorId two_to_the(TensorId exponents) {
    const TensorId out =
        block_.make({kAlibi, "powers"}, block_.tensor(exponents).shape, block_.dtype_of(exponents));
    Op op;
    op.kind = OpKind::power;
    op.name = kAlibi;
    op.inputs = {exponents};
    op.outputs = {out, block_.make({kAlibi, "base on the device"}, {Expr(1)}, DType::int64)};
    block_.emit(std::move(op));
    return out;
  }

  /// One geometric row for as many heads as the largest power of two, and every second of the next
  /// one's for the rest.
  TensorId slopes_of_heads() {
    // build_alibi_tensor: closest_power_of_2. 71 heads are 64 slopes and 7 of the row for 128.
    const auto largest =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads_)));
    const TensorId first = row("base", "exponents", "slopes", largest);
    if (largest == heads_) return frame_.local(first);
    const TensorId rest =
        row("extra base", "extra exponents", "extra slopes", std::min(largest, heads_ - largest));
    return frame_.local(compute(block_, OpKind::concatenate, {first, rest},
                                {{kAlibi, "all slopes"}, {Expr(heads_)}, DType::fp32}));
  }

  TensorId row(std::string_view base, std::string_view exponents, std::string_view slopes,
               std::int64_t count) {
    const TensorId number =
        frame_.local(compute(block_, OpKind::copy, {}, {{kAlibi, base}, {Expr(1)}, DType::fp32}));
    const TensorId powers = frame_.local(
        compute(block_, OpKind::copy, {}, {{kAlibi, exponents}, {Expr(count)}, DType::int32}));
    return compute(block_, OpKind::power, {number, powers},
                   {{kAlibi, slopes}, {Expr(count)}, DType::fp32});
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  Frame frame_;
  std::int64_t heads_;
};

}  // namespace

void alibi_table(BlockBuilder& block, const DecoderContext& context) {
  AlibiWriter writer(block, context);
  switch (context.habits.alibi) {
    case AlibiWriting::none:
      return;
    case AlibiWriting::of_fp32_mask:
      return writer.write_by_mask(DType::fp32);
    case AlibiWriting::of_int64_mask:
      return writer.write_by_mask(DType::int64);
    case AlibiWriting::of_positions:
      return writer.write_by_position();
  }
}

void alibi_mask(BlockBuilder& block, const DecoderContext& context, TensorId mask) {
  const Dimensions& dims = context.dims;
  const DType dtype = context.policy.weights;
  const Shape square = {dims.b, Expr(1), dims.s, dims.s};
  Frame frame(block);
  // FalconModel.forward turns sdpa's boolean mask into numbers: torch.where(causal_mask,
  // torch.full((), 0.0), min_dtype).
  if (block.dtype_of(mask) == DType::boolean) {
    const TensorId zero =
        compute(block, OpKind::copy, {}, {{"alibi_mask", "zero"}, {Expr(1)}, dtype});
    const TensorId lowest =
        compute(block, OpKind::copy, {}, {{"alibi_mask", "lowest value"}, {Expr(1)}, dtype});
    mask = compute(block, OpKind::mask, {mask, zero, lowest},
                   {{"alibi_mask", "additive"}, square, dtype});
  }
  frame.local(mask);
  const TensorId biases = block.shared(kAlibi, {dims.b, dims.a, dims.s}, dtype);
  // FalconModel.forward: alibi · 1/√(hidden_size / num_heads), then torch.masked_fill where the
  // mask is below -1; sdpa is given the result, [b, a, s, s] in the model's type.
  const TensorId scaled =
      compute(block, OpKind::scale, {biases},
              {{"alibi_mask", "scaled biases"}, {dims.b, dims.a, dims.s}, dtype});
  const TensorId hidden =
      compute(block, OpKind::mask, {mask}, {{"alibi_mask", "hidden"}, square, DType::boolean});
  block.outlive(compute(block, OpKind::mask, {scaled, hidden},
                        {{"alibi_mask", "filled"}, {dims.b, dims.a, dims.s, dims.s}, dtype}),
                "alibi mask");
}

}  // namespace memest
