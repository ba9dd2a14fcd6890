#include "attention.hpp"

#include <utility>

#include "operations.hpp"

namespace memest {
namespace {

/// Queries, keys and values before position and kernel, as views of what the projections make.
class Projections {
 public:
  Projections(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
              bool turns)
      : block_(block),
        context_(context),
        dims_(context.dims),
        spec_(std::get<SoftmaxAttention>(context.decoder.attention)),
        turns_(turns),
        repeats_(call.repeats),
        written_out_(call.kernel == AttentionKernel::eager ||
                     call.kernel == AttentionKernel::sdpa_math) {}

  AttentionInputs write(TensorId x) {
    return spec_.layout == QkvLayout::fused ? fused(x) : separate(x);
  }

 private:
  TensorId project(std::string_view name, const Expr& out, bool bias, TensorId x) {
    return projection(block_, context_, {name, dims_.h, out, bias, false, context_.bias_call()},
                      dims_.rows(), x);
  }

  Shape by_head(const Expr& heads) const { return {dims_.b, dims_.s, heads, dims_.d}; }

  TensorId full_width_norm(std::string_view name, const Expr& width, TensorId x) {
    if (spec_.qk_norm != QkNorm::full_width) return x;
    return norm(block_, context_, {name, spec_.qk_norm_kind, {width}}, x);
  }

  Heads head_norm(std::string_view name, const Expr& heads, TensorId x) {
    switch (spec_.qk_norm) {
      case QkNorm::none:
      case QkNorm::full_width:
        return {x};
      case QkNorm::per_head:
        return {norm(block_, context_, {name, spec_.qk_norm_kind, {dims_.d}}, x)};
      case QkNorm::per_head_own:
        return {norm(block_, context_, {name, spec_.qk_norm_kind, {heads, dims_.d}}, x)};
    }
    return {x};
  }

  AttentionInputs separate(TensorId x) {
    const Expr q_width = dims_.a * dims_.d;
    const Expr kv_width = dims_.k * dims_.d;
    const ProjectionOrder order = context_.habits.projections;
    const auto seen = [&](std::string_view name, TensorId part, const Expr& count, bool now) {
      return now ? heads(name, part, count) : part;
    };
    const auto normed = [&](std::string_view name, Heads part, const Expr& count, bool now) {
      return now ? head_norm(name, count, part.id) : part;
    };
    const bool sees = order != ProjectionOrder::views_last;
    const bool norms = order == ProjectionOrder::norm_by_norm;
    TensorId raw = full_width_norm("q_norm", q_width, project("q_proj", q_width, spec_.q_bias, x));
    if (context_.transformers() && context_.habits.scales_queries) {
      raw = scale(block_, {"q_proj", "scaled"}, raw);
    }
    Heads q = normed("q_norm", {seen("q_proj", raw, dims_.a, sees)}, dims_.a, norms);
    raw = full_width_norm("k_norm", kv_width, project("k_proj", kv_width, spec_.kv_bias, x));
    Heads k = normed("k_norm", {seen("k_proj", raw, dims_.k, sees)}, dims_.k, norms);
    raw = project("v_proj", kv_width, spec_.kv_bias, x);
    Heads v = {seen("v_proj", raw, dims_.k, sees)};
    q.id = seen("q_proj", q.id, dims_.a, !sees);
    k.id = seen("k_proj", k.id, dims_.k, !sees);
    v.id = seen("v_proj", v.id, dims_.k, !sees);
    q = normed("q_norm", q, dims_.a, !norms);
    k = normed("k_norm", k, dims_.k, !norms);
    return {q, k, v};
  }

  /// [b, s, heads · d] seen as [b, s, heads, d]. A rotation, repeated heads and products give back
  /// gradients that lie by heads, which the old shape cannot show; of the transposed keys it can.
  TensorId heads(std::string_view name, TensorId x, const Expr& count) {
    const bool of_v = name == "v_proj";
    const bool of_k = name == "k_proj";
    const bool packed_gradient =
        (turns_ && !of_v) || (repeats_ && (of_k || of_v)) || (written_out_ && !of_k);
    if (packed_gradient && count != Expr(1)) {
      return view_copied_back(block_, {name, "heads"}, x, by_head(count));
    }
    return view(block_, {name, "heads"}, x, by_head(count));
  }

  AttentionInputs fused(TensorId x) {
    const Expr width = (dims_.a + Expr(2) * dims_.k) * dims_.d;
    TensorId both = project("qkv_proj", width, spec_.q_bias, x);
    TensorId q = 0;
    TensorId k = 0;
    TensorId v = 0;
    if (context_.transformers() && context_.habits.slices_qkv) {
      const auto part = [&](std::string_view name, const Expr& heads) {
        return slice(block_, {"qkv_proj", name}, both, {dims_.b, dims_.s, heads * dims_.d});
      };
      q = part("q", dims_.a);
      k = part("k", dims_.k);
      v = part("v", dims_.k);
      q = heads("q_proj", q, dims_.a);
      k = heads("k_proj", k, dims_.k);
      v = heads("v_proj", v, dims_.k);
      return by_heads(q, k, v);
    }
    if (!context_.transformers() || context_.habits.splits_before_heads) {
      const auto part = [&](std::string_view name, const Expr& heads) {
        return Part{{"qkv_proj", name}, {dims_.b, dims_.s, heads * dims_.d}};
      };
      const std::vector<TensorId> parts = split(
          block_, "qkv_proj", both, {part("q", dims_.a), part("k", dims_.k), part("v", dims_.k)});
      k = heads("k_proj", parts[1], dims_.k);
      v = heads("v_proj", parts[2], dims_.k);
      q = heads("q_proj", parts[0], dims_.a);
      return by_heads(q, k, v);
    }
    if (context_.transformers() && context_.habits.transposes_before_split) {
      both = view_copied_back(block_, {"qkv_proj", "by head"}, both,
                              {dims_.b, dims_.s, dims_.a, Expr(3) * dims_.d});
    }
    const std::vector<TensorId> parts = split(block_, "qkv_proj", both,
                                              {{{"qkv_proj", "q"}, by_head(dims_.a)},
                                               {{"qkv_proj", "k"}, by_head(dims_.k)},
                                               {{"qkv_proj", "v"}, by_head(dims_.k)}});
    const bool indexes =
        context_.transformers() && context_.habits.splits_by_index && spec_.kv_heads < spec_.heads;
    k = indexes ? index_out("k_split", parts[1]) : parts[1];
    v = indexes ? index_out("v_split", parts[2]) : parts[2];
    return by_heads(parts[0], k, v);
  }

  /// Advanced indexing copies, and keeps its index.
  TensorId index_out(std::string_view name, TensorId x) {
    const TensorId index = block_.make({name, "index"}, {Expr(1)}, DType::int64);
    const TensorId out = block_.make({name}, block_.tensor(x).shape, block_.dtype_of(x));
    Op op;
    op.kind = OpKind::copy;
    op.name = name;
    op.inputs = {x};
    op.outputs = {index, out};
    op.saved = {index};
    BackwardWriter backward(op);
    backward.give(x, backward.make(x, block_.dtype_of(x)));
    block_.emit(std::move(op));
    return out;
  }

  AttentionInputs by_heads(TensorId q, TensorId k, TensorId v) {
    const Heads of_q = head_norm("q_norm", dims_.a, q);
    const Heads of_k = head_norm("k_norm", dims_.k, k);
    return {of_q, of_k, {v}};
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
  const SoftmaxAttention& spec_;
  bool turns_;
  bool repeats_;
  bool written_out_;  // as products of batches
};

struct Rotation {
  std::vector<TensorId> tables;  ///< cos and sin; none where they are not counted
  bool by_cat = false;           ///< rotated and other channels are joined: the result is packed
  bool joins_at_once = false;    ///< the queries before the keys are turned
  bool joined_replaces = false;  ///< the turned channels go as soon as they are joined
  Expr channels;                 ///< that turn
  RotationType type = RotationType::given;
  bool casts_back = false;  ///< the sum is of another type
};

/// x·cos + rotate_half(x)·sin: keeps the tables, not x. With a type promoted to the tables'.
TensorId turned(BlockBuilder& block, std::string_view name, TensorId x, const Rotation& rotation) {
  const std::vector<TensorId>& tables = rotation.tables;
  const Shape shape = block.tensor(x).shape;
  const bool widens = rotation.type == RotationType::factors_in_fp32;
  const auto factor = [&](std::string_view part, TensorId tensor) {
    return widens ? cast(block, {name, part}, tensor, DType::fp32) : tensor;
  };
  if (tables.empty()) return function(block, {name}, Keeps::nothing, x);
  Shape half = shape;
  half.back() = half.back() / Expr(2);
  const TensorId cosine =
      multiply(block, {name, "cosine product"}, factor("in fp32", x), tables[0]);
  const TensorId low = slice(block, {name, "low half"}, x, half);
  const TensorId high = slice(block, {name, "high half"}, x, half);
  const TensorId negated = scale(block, {name, "negated half"}, high);
  const TensorId half_turned = concatenate(block, {name, "half turned"}, {negated, low}, shape);
  const TensorId sine = multiply(block, {name, "sine product"},
                                 factor("half turned in fp32", half_turned), tables[1]);
  return add(block, {name, "turned"}, cosine, sine);
}

/// The channels that turn and those that do not.
struct Channels {
  TensorId turning = 0;
  TensorId still = 0;
};

Channels channels_of(BlockBuilder& block, std::string_view name, TensorId x, const Expr& turning) {
  Shape shape = block.tensor(x).shape;
  const Expr whole = shape.back();
  shape.back() = turning;
  Channels channels;
  // A slice of everything is the tensor itself.
  channels.turning = turning == whole ? view(block, {name, "turning channels"}, x, shape)
                                      : slice(block, {name, "turning channels"}, x, shape);
  shape.back() = whole - turning;
  channels.still = slice(block, {name, "still channels"}, x, shape);
  return channels;
}

/// Queries and keys by the positions' angles.
void rotate(BlockBuilder& block, const Rotation& rotation, Frame& names, AttentionInputs& inputs) {
  Heads& q = inputs.q;
  Heads& k = inputs.k;
  if (!rotation.by_cat) {
    Frame frame(block);
    const DType dtype = block.dtype_of(q.id);
    for (const TensorId table : rotation.tables) frame.local(table);
    if (rotation.type == RotationType::whole_in_fp32) {
      q.id = frame.local(cast(block, {"q_rotary", "in fp32"}, q.id, DType::fp32));
      k.id = frame.local(cast(block, {"k_rotary", "in fp32"}, k.id, DType::fp32));
    }
    const TensorId of_q = frame.local(turned(block, "q_rotary", q.id, rotation));
    const TensorId of_k = frame.local(turned(block, "k_rotary", k.id, rotation));
    q = {of_q, false};
    k = {of_k, false};
    if (!rotation.casts_back) return;
    q = {cast(block, {"q_rotary", "in type"}, of_q, dtype), false};
    k = {cast(block, {"k_rotary", "in type"}, of_k, dtype), false};
    return;
  }
  const Channels of_q = channels_of(block, "q_rotary", q.id, rotation.channels);
  const Channels of_k = channels_of(block, "k_rotary", k.id, rotation.channels);
  const auto joined = [&](std::string_view name, TensorId part, TensorId still, TensorId like) {
    return Heads{concatenate(block, {name}, {part, still}, block.tensor(like).shape), true};
  };
  const TensorId turned_q = turned(block, "q_rotary", of_q.turning, rotation);
  if (rotation.joins_at_once) {
    q = joined("q_rotary", turned_q, of_q.still, q.id);
    const TensorId turned_k = turned(block, "k_rotary", of_k.turning, rotation);
    k = joined("k_rotary", turned_k, of_k.still, k.id);
    return;
  }
  const TensorId turned_k = turned(block, "k_rotary", of_k.turning, rotation);
  if (!rotation.joined_replaces) {
    for (const TensorId part : {turned_q, turned_k}) names.local(part);
  }
  q = joined("q_rotary", turned_q, of_q.still, q.id);
  k = joined("k_rotary", turned_k, of_k.still, k.id);
}

/// The cos and sin tables of a layer kind, [1, s, r] in the residual stream's type.
std::vector<TensorId> rotary_tables(BlockBuilder& block, const DecoderContext& context,
                                    const LayerKind& kind) {
  if (context.textbook()) return {};
  const auto& rotary = std::get<RotaryPosition>(context.decoder.position);
  const bool local = rotary.tables > 1 && kind.sliding_window.has_value();
  const bool in_fp32 = context.transformers() && context.habits.tables_in_fp32;
  const DType dtype = in_fp32 ? DType::fp32 : block.precision().weights;
  const Shape shape = {Expr(1), context.dims.s, Symbol::rotary_dim};
  std::vector<TensorId> shared = {block.shared(local ? "local cos" : "cos", shape, dtype),
                                  block.shared(local ? "local sin" : "sin", shape, dtype)};
  if (!context.transformers() || !context.habits.tables_by_layer) return shared;
  return {compute(block, OpKind::copy, {shared[0]}, {{"interleave", "cos"}, shape, dtype}),
          compute(block, OpKind::copy, {shared[1]}, {{"interleave", "sin"}, shape, dtype})};
}

TensorId run(BlockBuilder& block, const DecoderContext& context, const AttentionCall& call,
             const AttentionInputs& inputs) {
  switch (call.kernel) {
    case AttentionKernel::sdpa:
    case AttentionKernel::sdpa_flash:
    case AttentionKernel::sdpa_efficient:
    case AttentionKernel::sdpa_cudnn:
      return fused_attention(block, context, call, inputs);
    case AttentionKernel::sdpa_math:
      return math_attention(block, context, call, inputs);
    case AttentionKernel::eager:
      return eager_attention(block, context, call, inputs);
    case AttentionKernel::textbook:
      return textbook_attention(block, context, call, inputs);
  }
  return inputs.q.id;
}

}  // namespace

DType operand_type(const LoweringPolicy& policy) {
  return policy.autocast ? policy.compute : policy.weights;
}

AttentionCall attention_call(const DecoderContext& context, const LayerKind& kind) {
  const auto& spec = std::get<SoftmaxAttention>(context.decoder.attention);
  const LoweringPolicy& policy = context.policy;
  const bool alibi = std::holds_alternative<AlibiPosition>(context.decoder.position);
  const bool habitual = context.transformers();
  AttentionCall call;
  call.kernel = policy.implementation.attention;
  if (habitual && context.habits.eager_only) call.kernel = AttentionKernel::eager;
  if (!habitual || alibi || context.habits.drops_attention) {
    call.dropout = context.dropout(context.decoder.dropout.attention);
  }
  call.dtype = operand_type(policy);
  call.mask_by_head = alibi;
  call.mask = kind.sliding_window ? "sliding mask" : "causal mask";
  call.masked = alibi || (kind.sliding_window && policy.seq_len >= *kind.sliding_window) ||
                (habitual && context.habits.masks_always);
  call.broadcast = habitual && context.habits.splits_by_index && spec.kv_heads == 1 &&
                   spec.kv_heads < spec.heads;
  // transformers repeats keys and values where it passes a mask.
  call.grouped = spec.kv_heads < spec.heads && !call.masked;
  call.repeats = spec.kv_heads < spec.heads && spec.kv_heads > 1 &&
                 (call.masked || call.kernel == AttentionKernel::eager);
  if (call.kernel == AttentionKernel::sdpa) {
    call.kernel = call.broadcast ? AttentionKernel::sdpa_math
                                 : resolve_sdpa(call, spec.head_dim, policy.capability);
  }
  if (call.grouped && call.kernel == AttentionKernel::sdpa_math) call.repeats = true;
  return call;
}

std::optional<Unavailable> kernel_refusal(const DecoderContext& context, const LayerKind& kind) {
  const AttentionCall call = attention_call(context, kind);
  const auto refuses = [](bool condition, const char* sentence) {
    return condition ? std::optional<Unavailable>(Unavailable{sentence}) : std::nullopt;
  };
  constexpr std::int64_t kWidestFlash = 256;
  const std::int64_t head_dim = std::get<SoftmaxAttention>(context.decoder.attention).head_dim;
  switch (call.kernel) {
    case AttentionKernel::sdpa_flash:
      if (!is_half(call.dtype)) return refuses(true, "flash attention takes 16-bit types only");
      if (head_dim > kWidestFlash) {
        return refuses(true, "flash attention takes heads of 256 channels at most");
      }
      return refuses(call.masked, "flash attention takes no mask, and this model passes one");
    case AttentionKernel::sdpa_efficient:
      return refuses(call.grouped || call.broadcast,
                     "the memory-efficient kernel takes no grouped heads (PyTorch 2.11)");
    case AttentionKernel::sdpa_cudnn:
      return refuses(!is_half(call.dtype) || call.broadcast,
                     "cuDNN attention takes 16-bit types and no broadcast heads");
    case AttentionKernel::sdpa:
    case AttentionKernel::sdpa_math:
    case AttentionKernel::eager:
    case AttentionKernel::textbook:
      return std::nullopt;
  }
  return std::nullopt;
}

TensorId attention(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                   TensorId x) {
  const Dimensions& dims = context.dims;
  const auto& spec = std::get<SoftmaxAttention>(context.decoder.attention);
  const AttentionCall call = attention_call(context, kind);
  Frame frame(block);
  const auto* rotary = std::get_if<RotaryPosition>(&context.decoder.position);
  const bool turns = rotary != nullptr && kind.rotates;
  AttentionInputs inputs = Projections(block, context, call, turns).write(x);
  if (turns) {
    const bool habitual = context.transformers();
    Rotation rotation;
    rotation.tables = rotary_tables(block, context, kind);
    rotation.by_cat =
        habitual && (context.habits.rotates_by_cat || rotary->rotary_dim != spec.head_dim);
    rotation.joins_at_once = habitual && context.habits.rotates_by_cat;
    rotation.joined_replaces = habitual && context.habits.joined_replaces;
    rotation.channels = rotary->rotary_dim == spec.head_dim ? dims.d : Expr(Symbol::rotary_dim);
    if (habitual) rotation.type = context.habits.rotation;
    rotation.casts_back =
        habitual && (context.habits.tables_in_fp32 || rotation.type != RotationType::given);
    // Who takes the channels apart in attention's own function names the parts.
    const bool own = rotation.by_cat && habitual && context.habits.names_channels;
    Frame rotating(block);
    Frame& names = own ? frame : rotating;
    for (const TensorId raw : {inputs.q.id, inputs.k.id}) names.local(raw);
    rotate(block, rotation, names, inputs);
  }
  for (const TensorId local : {inputs.q.id, inputs.k.id, inputs.v.id, x}) frame.local(local);
  const TensorId mixed = run(block, context, call, inputs);
  if (context.nanogpt()) frame.local(mixed);  // named until dropout has run
  const TensorId out = projection(block, context,
                                  {"o_proj", dims.a * dims.d, dims.h, spec.output_bias, false,
                                   context.bias_call(), dims.stream()},
                                  dims.rows(), mixed);
  return dropout(block, "attention_output_dropout", context.dropout_inside(), out);
}

}  // namespace memest
