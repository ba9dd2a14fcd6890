#include "graph/lower/attention/positions.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/trl/trl.hpp"

namespace memest {
namespace {

/// A running sum of one row is a scan of the whole tensor.
void scan_one_sequence(const DecoderContext& context, DType dtype, Op& op) {
  if (context.policy.micro_batch != 1) return;
  KernelLaunch scan;
  scan.kind = KernelLaunch::Kind::scan;
  scan.reduced = context.dims.s;
  scan.dtype = dtype;
  op.forward_launches = {std::move(scan)};
}

/// A boolean mask of [1, 1, s, s] from broadcast indices, causal or a sliding window; written out
/// for the batch in `dtype` where the scores are added to it.
struct MaskForm {
  std::optional<DType> dtype;
  bool sliding = false;
  bool padded = false;  ///< also by the mask of tokens that the caller passed
  bool several = true;  ///< of more sequences than one
};
TensorId mask_of_indices(BlockBuilder& block, const Dimensions& dims, std::string_view name,
                         const MaskForm& form) {
  const auto [dtype, sliding, padded, several] = form;
  const Shape square = {Expr(1), Expr(1), dims.s, dims.keys};
  TensorId allowed = 0;
  {
    Frame frame(block);
    // sdpa_mask makes all four indices and broadcasts them ([:, None, None, None] and so on); a
    // causal mask reads queries' and keys' only and stays [1, 1, s, s], expanded to the batch as a
    // view.
    frame.local(compute(block, OpKind::copy, {}, {{name, "batch index"}, {dims.b}, DType::int64}));
    frame.local(compute(block, OpKind::copy, {}, {{name, "head index"}, {Expr(1)}, DType::int64}));
    const TensorId queries = frame.local(counted(block, name, {dims.s}));
    const TensorId keys = frame.local(counted(block, name, {dims.keys}));
    // and_masks begins with q_idx.new_ones((), dtype=torch.bool) and takes every mask's
    // intersection: one boolean s² tensor for each & as well.
    const auto all = [&](std::string_view named) {
      return compute(block, OpKind::copy, {}, {{name, named}, {Expr(1)}, DType::boolean});
    };
    const auto both = [&](TensorId left, TensorId right, std::string_view named) {
      return compute(block, OpKind::mask, {left, right}, {{name, named}, square, DType::boolean});
    };
    const TensorId all_tokens = padded ? all("all tokens") : 0;
    TensorId window = 0;
    if (sliding) {
      Frame inner(block);
      const TensorId all_keys = inner.local(all("all"));
      const TensorId shifted =
          compute(block, OpKind::add, {queries}, {{name, "window starts"}, {dims.s}, DType::int64});
      const TensorId within = both(keys, shifted, "within the window");
      window = both(all_keys, within, "window");
    }
    allowed = both(queries, keys, "causal");
    if (sliding) allowed = both(window, allowed, padded ? "causal in window" : "boolean");
    if (padded) allowed = both(all_tokens, allowed, "boolean");
    // padding_mask_function: padding_mask[batch_idx, kv_idx], by tensors of indices; the
    // intersection is [b, 1, s, s].
    if (padded) {
      const Shape rows = {dims.b, dims.keys};
      std::vector<TensorId> indices = {
          compute(block, OpKind::copy, {}, {{name, "sequences"}, rows, DType::int64})};
      if (several)
        indices.push_back(compute(block, OpKind::copy, {}, {{name, "tokens"}, rows, DType::int64}));
      const TensorId wanted =
          compute(block, OpKind::mask, indices, {{name, "wanted tokens"}, rows, DType::boolean});
      allowed = compute(
          block, OpKind::mask, {allowed, wanted},
          {{name, "boolean by sequence"}, {dims.b, Expr(1), dims.s, dims.keys}, DType::boolean});
    }
  }
  if (!dtype) return allowed;
  const TensorId lowest =
      // eager_mask: torch.where(mask, torch.tensor(0.0), min_dtype).
      compute(block, OpKind::copy, {}, {{name, "lowest value"}, {Expr(1)}, *dtype});
  const TensorId zero = compute(block, OpKind::copy, {}, {{name, "zero"}, {Expr(1)}, *dtype});
  return compute(block, OpKind::mask, {allowed, zero, lowest},
                 {{name, "additive"}, {dims.b, Expr(1), dims.s, dims.keys}, *dtype});
}

}  // namespace

TensorId counted(BlockBuilder& block, std::string_view op, const Shape& shape) {
  // torch.arange(s) + past_seen_tokens: an addition even of 0.
  const TensorId range =
      compute(block, OpKind::copy, {}, {{op, "arange"}, {shape.back()}, DType::int64});
  return compute(block, OpKind::add, {range}, {{op, "ids"}, shape, DType::int64});
}

TensorId position_ids(BlockBuilder& block, const DecoderContext& context) {
  if (context.generates() || context.joins_sequences())
    return block.shared("position ids", context.dims.rows(), DType::int64);
  // For one sequence [1, s] is [b, s]: its rows' gradient needs no sum over the batch.
  const Expr rows = context.policy.micro_batch == 1 ? context.dims.b : Expr(1);
  const TensorId ids = counted(block, "position_ids", {rows, context.dims.s});
  block.outlive(ids, "position ids");
  return ids;
}

TensorId mask_of_ones(BlockBuilder& block, const DecoderContext& context, DType dtype) {
  const TensorId mask =
      compute(block, OpKind::copy, {}, {{"attention_mask", "ones"}, context.dims.rows(), dtype});
  block.outlive(mask, "attention mask");
  return mask;
}

TensorId running_sum(BlockBuilder& block, const DecoderContext& context, std::string_view name,
                     TensorId x) {
  // torch.cumsum sums integers in int64, of a copy where they are narrower (its type promotion).
  const bool widens = block.dtype_of(x) == DType::int32;
  const DType dtype = widens ? DType::int64 : block.dtype_of(x);
  const Shape shape = block.tensor(x).shape;
  Op sum;
  sum.kind = OpKind::reduce;
  sum.name = name;
  sum.inputs = {x};
  const std::optional<TensorId> wide =
      widens ? std::optional(block.make({name, "widened"}, shape, dtype)) : std::nullopt;
  const TensorId counts = block.make({name, "counts"}, shape, dtype);
  sum.outputs = {counts};
  if (wide) sum.outputs.push_back(*wide);
  scan_one_sequence(context, dtype, sum);
  block.emit(std::move(sum));
  return counts;
}

TensorId positions_of_mask(BlockBuilder& block, const DecoderContext& context) {
  constexpr std::string_view kName = "position_ids";
  const Shape rows = {context.dims.b, context.dims.s};
  const TensorId mask = mask_of_ones(block, context, DType::fp32);
  Frame frame(block);
  // OPTLearnedPositionalEmbedding: (cumsum(attention_mask) * attention_mask - 1).long(); the mask
  // is torch.ones, fp32.
  const TensorId counts = frame.local(running_sum(block, context, kName, mask));
  const TensorId masked =
      compute(block, OpKind::multiply, {counts, mask}, {{kName, "masked"}, rows, DType::fp32});
  const TensorId from_zero =
      compute(block, OpKind::add, {masked}, {{kName, "from zero"}, rows, DType::fp32});
  const TensorId ids =
      compute(block, OpKind::cast, {from_zero}, {{kName, "ids"}, rows, DType::int64});
  block.outlive(ids, "position ids");
  return ids;
}

namespace {

/// The part of the mask of tokens that a full window sees (_ignore_causal_mask_sdpa:
/// padding_mask[:, torch.arange(kv_length) + kv_offset]).
void take_window(BlockBuilder& block, const Dimensions& dims, TensorId wanted) {
  Frame frame(block);
  const TensorId seen = frame.local(counted(block, "padding", {dims.keys}));
  compute(block, OpKind::copy, {wanted, seen},
          {{"padding", "within the window"}, {dims.b, dims.keys}, DType::boolean});
}

/// The mask of layers of `kind` that generate() passes a mask of tokens for: made where a window
/// hides some.
void mask_of_generation(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind) {
  const DecoderContext own = context_of_kind(context, kind);
  const AttentionCall call = attention_call(context, kind);
  const Expr tokens = context.decodes() ? Expr(Symbol::cached_keys) : context.dims.s;
  const TensorId given = block.shared("attention mask", {context.dims.b, tokens}, DType::int64);
  Frame frame(block);
  const TensorId wanted =
      frame.local(compute(block, OpKind::cast, {given},
                          {{"padding", kind.sliding_window ? "wanted in window" : "wanted"},
                           {context.dims.b, tokens},
                           DType::boolean}));
  if (!call.masked) return find_padding(block, context, wanted);
  if (context.decodes() && context.policy.past >= *kind.sliding_window) {
    take_window(block, own.dims, wanted);
  }
  const bool several = context.policy.micro_batch > 1;
  block.outlive(mask_of_indices(block, own.dims, call.mask, {{}, true, true, several}), call.mask);
}

/// The causal mask of a model that passes a mask of tokens: made where the kernel takes one.
void mask_of_tokens(BlockBuilder& block, const DecoderContext& context, bool eager) {
  Frame frame(block);
  const TensorId wanted = frame.local(compute(
      block, OpKind::cast, {}, {{"padding", "wanted"}, context.dims.rows(), DType::boolean}));
  if (!eager) return find_padding(block, context, wanted);
  constexpr std::string_view kName = "causal mask";
  const MaskForm form = {context.policy.weights, false, true, context.policy.micro_batch > 1};
  block.outlive(mask_of_indices(block, context.dims, kName, form), kName);
}

/// The test of the position ids for packed sequences (transformers, masking_utils.py,
/// find_packed_sequence_indices).
void find_packed_sequences(BlockBuilder& block, const DecoderContext& context, TensorId ids) {
  const Dimensions& dims = context.dims;
  constexpr std::string_view kName = "packed_sequences";
  const Shape rows = {dims.b, dims.s};
  const Shape row = {dims.b, Expr(1)};
  Frame frame(block);
  const TensorId first =
      frame.local(compute(block, OpKind::add, {ids}, {{kName, "first"}, row, DType::int64}));
  const TensorId joined = compute(block, OpKind::concatenate, {first, ids},
                                  {{kName, "joined"}, {dims.b, dims.s + Expr(1)}, DType::int64});
  const TensorId steps =
      frame.local(compute(block, OpKind::add, {joined}, {{kName, "steps"}, rows, DType::int64}));
  const TensorId breaks =
      compute(block, OpKind::mask, {steps}, {{kName, "breaks"}, rows, DType::boolean});
  // The sum reads the booleans through a copy.
  Op op;
  op.kind = OpKind::reduce;
  op.name = kName;
  op.inputs = {breaks};
  const TensorId wide = block.make({kName, "breaks as numbers"}, rows, DType::int64);
  const TensorId sums = frame.local(block.make({kName, "sums"}, rows, DType::int64));
  op.outputs = {sums, wide};
  scan_one_sequence(context, DType::int64, op);
  block.emit(std::move(op));
  const TensorId last =
      compute(block, OpKind::mask, {sums}, {{kName, "last"}, {dims.b}, DType::boolean});
  compute(block, OpKind::reduce, {last}, {{kName, "all"}, {Expr(1)}, DType::boolean});
}

}  // namespace

void attention_masks(BlockBuilder& block, const DecoderContext& context, TensorId ids) {
  if (context.compiles_whole()) {
    // masking_utils.py, _ignore_causal_mask_sdpa: while it is traced it does not skip the mask, of
    // which convert_boolean_attn_mask's result is one value for all layers.
    const Shape shape = {context.dims.b, Expr(1), context.dims.s, context.dims.keys};
    constexpr std::string_view kName = "causal mask";
    return block.outlive(compute(block, OpKind::mask, {},
                                 {{kName, "additive"}, shape, operand_type(context.policy)}),
                         kName);
  }
  const bool eager = context.policy.implementation.attention == AttentionKernel::eager ||
                     context.habits.eager_only;
  // Full attention's first, as the models list them.
  for (const bool sliding : {false, true}) {
    const auto& kinds = context.decoder.kinds;
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& one) {
      return one.sliding_window.has_value() == sliding;
    });
    // Qwen2Model.forward lists "full_attention" unconditionally and "sliding_attention" if
    // has_sliding_layers.
    const bool unread = kind == kinds.end();
    const Habits& habits = context.habits;
    if (unread && !(sliding ? habits.makes_all_masks : habits.masks_by_type)) continue;
    if (habits.positions_from_mask || habits.alibi == AlibiWriting::of_fp32_mask) {
      return mask_of_tokens(block, context, eager);
    }
    if (passes_token_mask(context)) mask_of_tokens(block, context, eager);
    if (passes_token_mask(context)) continue;
    if (context.generates()) {
      // A full mask that no layer reads is tested all the same.
      mask_of_generation(block, context, unread ? LayerKind{} : *kind);
      continue;
    }
    // Nothing is packed where a cache continues sequences.
    if (habits.finds_packed && !habits.masks_always && habits.passes_positions &&
        !context.caches()) {
      find_packed_sequences(block, context, ids);
    }
    // A window of no token is what such a config says, and masks all.
    LayerKind unread_kind;
    if (sliding) unread_kind.sliding_window = 0;
    const AttentionCall call = attention_call(context, unread ? unread_kind : *kind);
    // sdpa_mask returns None here, and is_causal takes the mask's place.
    if (!eager && !call.masked) continue;
    const std::string_view name = sliding ? "sliding mask" : "causal mask";
    const std::optional<DType> dtype =
        eager ? std::optional<DType>(context.policy.weights) : std::nullopt;
    const TensorId mask = mask_of_indices(block, context.dims, name, {dtype, sliding});
    if (call.mask_by_head && habits.alibi == AlibiWriting::of_int64_mask) {
      alibi_mask(block, context, mask);
    } else if (habits.scores == ScoreWriting::filled) {
      const Shape shape = block.tensor(mask).shape;
      block.outlive(
          compute(block, OpKind::cast, {mask}, {{name, "as booleans"}, shape, DType::boolean}),
          "boolean mask");
    } else {
      block.outlive(mask, name);
    }
  }
}

namespace {

/// The token positions that an operation rotates so many channels by.
struct RotaryPositions {
  std::string_view op;
  TensorId ids = 0;
  const Expr& channels;
};

/// Positions times frequencies, for half of the channels.
TensorId angles_of(BlockBuilder& block, const DecoderContext& context, Frame& frame,
                   const RotaryPositions& rotary) {
  const auto& [op, ids, channels] = rotary;
  const Expr tokens = context.dims.s;
  const Expr rows = context.position_rows();
  const TensorId positions = frame.local(
      compute(block, OpKind::cast, {ids}, {{op, "positions"}, {rows, tokens}, DType::fp32}));
  Op product;
  product.kind = OpKind::rotary;
  product.name = op;
  product.inputs = {positions};
  // inv_freq_expanded @ position_ids_expanded: a batched product, under
  // maybe_autocast(enabled=False) in fp32. It is the first product of a model, and so makes
  // cuBLAS's workspace. From transformers 5.19 on: position_ids[..., None] * inv_freq.
  const bool multiplies = context.policy.implementation.transformers == TransformersRelease::v5_24;
  const TensorId angles =
      frame.local(block.make({op, "frequencies"}, {rows, tokens, channels / Expr(2)}, DType::fp32));
  product.outputs = {angles};
  if (!multiplies) product.workspace = Workspace::cublas;
  block.emit(std::move(product), {multiplies ? Expr() : rows * channels * tokens, Expr()});
  return angles;
}

}  // namespace

void rotary_tables(BlockBuilder& block, const DecoderContext& context, TensorId ids,
                   const Expr& channels) {
  const Dimensions& dims = context.dims;
  const auto table = [&](std::string_view op, std::string_view cos, std::string_view sin) {
    Frame frame(block);
    const TensorId angles = angles_of(block, context, frame, {op, ids, channels});
    if (context.compiles_whole()) return block.outlive(angles, kRotaryAngles);
    const bool halves = context.habits.rotates_halves;
    const Shape shape = {context.position_rows(), dims.s, halves ? channels / Expr(2) : channels};
    // torch.cat((freqs, freqs), dim=-1); GPT-OSS says emb = freqs.
    const TensorId both = halves ? angles
                                 : frame.local(compute(block, OpKind::concatenate, {angles},
                                                       {{op, "angles"}, shape, DType::fp32}));
    const bool in_fp32 = context.habits.tables_in_fp32;
    const DType dtype = in_fp32 ? DType::fp32 : block.precision().weights;
    std::array<TensorId, 2> scaled{};
    for (std::size_t i = 0; i < scaled.size(); ++i) {
      const std::string_view name = i == 0 ? "cosines" : "sines";
      const TensorId raw =
          compute(block, OpKind::activation, {both}, {{op, name}, shape, DType::fp32});
      // emb.cos() * self.attention_scaling: a tensor of its own even where the factor is 1.
      scaled[i] = compute(block, OpKind::scale, {raw},
                          {{op, i == 0 ? "scaled cosines" : "scaled sines"}, shape, DType::fp32});
    }
    for (std::size_t i = 0; i < scaled.size(); ++i) {
      const TensorId out =
          cast(block, {op, i == 0 ? "cos in type" : "sin in type"}, scaled[i], dtype);
      if (out != scaled[i]) frame.local(scaled[i]);
      block.outlive(out, i == 0 ? cos : sin);
    }
  };
  table("rotary_table", "cos", "sin");
  const auto* rotary = std::get_if<RotaryPosition>(&context.decoder.position);
  if (rotary != nullptr && rotary->tables > 1) {
    table("local_rotary_table", "local cos", "local sin");
  }
}

void complex_rotary_table(BlockBuilder& block, const DecoderContext& context, TensorId ids,
                          const Expr& channels) {
  constexpr std::string_view kName = "rotary_table";
  Frame frame(block);
  const TensorId angles = angles_of(block, context, frame, {kName, ids, channels});
  const Shape shape = block.tensor(angles).shape;
  // torch.polar(torch.ones_like(freqs), freqs) * attention_scaling: complex64, 8 B a pair of
  // channels.
  const TensorId ones =
      compute(block, OpKind::copy, {angles}, {{kName, "ones"}, shape, DType::fp32});
  Shape complex = shape;
  complex.emplace_back(2);
  const TensorId raw = compute(block, OpKind::activation, {ones, angles},
                               {{kName, "rotations"}, complex, DType::fp32});
  const TensorId scaled =
      compute(block, OpKind::scale, {raw}, {{kName, "scaled rotations"}, complex, DType::fp32});
  block.outlive(scaled, kComplexRotations);
}

}  // namespace memest
