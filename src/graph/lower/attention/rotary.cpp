// The rotation of queries and keys by the positions' angles.
#include <string_view>
#include <vector>

#include "graph/lower/attention/attention.hpp"
#include "graph/lower/attention/positions.hpp"
#include "graph/lower/liger/liger.hpp"
#include "graph/lower/litgpt/litgpt.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

struct Rotation {
  std::vector<TensorId> tables;  ///< cos and sin; none where they are not counted
  bool by_cat = false;           ///< rotated and other channels are joined: the result is packed
  bool joins_at_once = false;    ///< the queries before the keys are turned
  bool joined_replaces = false;  ///< the turned channels go as soon as they are joined
  Expr channels;                 ///< that rotate
  RotationType type = RotationType::given;
  bool casts_back = false;  ///< the sum is of another type
};

/// x·cos + rotate_half(x)·sin: keeps the tables, not x. With a type promoted to the tables'.
TensorId rotated(BlockBuilder& block, std::string_view name, TensorId x, const Rotation& rotation) {
  // apply_rotary_pos_emb: mul keeps an operand for the other's gradient, and cos and sin want none:
  // a layer keeps the tables, which all layers share, and no channel of q or k.
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
  const TensorId half_rotated = concatenate(block, {name, "half turned"}, {{negated, low}}, shape);
  const TensorId sine = multiply(block, {name, "sine product"},
                                 factor("half turned in fp32", half_rotated), tables[1]);
  return add(block, {name, "turned"}, cosine, sine);
}

/// The channels that rotate and those that do not.
struct Channels {
  TensorId turning = 0;
  TensorId still = 0;
};

Channels channels_of(BlockBuilder& block, std::string_view name, TensorId x, const Expr& turning) {
  Shape shape = block.tensor(x).shape;
  const Expr whole = shape.back();
  shape.back() = turning;
  Channels channels;
  // A slice of everything is the tensor itself. GLM and GPT-NeoX slice even where all rotates;
  // x[..., :d] of d channels is x itself (ATen/TensorIndexing.h, applySlice), without a
  // slice_backward.
  channels.turning = turning == whole ? view(block, {name, "turning channels"}, x, shape)
                                      : slice(block, {name, "turning channels"}, x, shape);
  // Phi-2's partial_rotary_factor 0.4 of 80 channels: 32 rotate, 48 do not.
  shape.back() = whole - turning;
  channels.still = slice(block, {name, "still channels"}, x, shape);
  return channels;
}

/// The cos and sin tables of a layer kind, [1, s, r] in the residual stream's type.
std::vector<TensorId> tables_of(BlockBuilder& block, const DecoderContext& context,
                                const LayerKind& kind) {
  if (context.program.rotations == Rotations::in_formula) return {};
  const auto& rotary = std::get<RotaryPosition>(context.decoder.position);
  // Gemma 3: a second base for the sliding layers (rope_parameters of "sliding_attention").
  const bool local = rotary.tables > 1 && kind.sliding_window.has_value();
  // OLMo's and ERNIE's rotary embeddings return cos, sin without .to(x.dtype).
  const bool in_fp32 = context.habits.tables_in_fp32;
  const DType dtype = in_fp32 ? DType::fp32 : block.precision().weights;
  const bool halves = context.habits.rotates_halves;
  const Expr channels = Symbol::rotary_dim;
  if (context.compiles_whole()) {
    const TensorId angles = block.shared(
        kRotaryAngles, {context.position_rows(), context.dims.s, channels / Expr(2)}, DType::fp32);
    return {angles, angles};
  }
  const Shape shape = {context.position_rows(), context.dims.s,
                       halves ? channels / Expr(2) : channels};
  std::vector<TensorId> shared = {
      block.shared(local ? "local cos" : context.habits.cosines, shape, dtype),
      block.shared(local ? "local sin" : context.habits.sines, shape, dtype)};
  if (!context.habits.tables_by_layer) return shared;
  // GLM and ERNIE: cos[..., : d // 2].repeat_interleave(2, dim=-1) within apply_rotary_pos_emb, so
  // each layer makes and keeps its own: 2·s·r·2 B for r rotating channels in bf16.
  return {compute(block, OpKind::copy, {shared[0]}, {{"interleave", "cos"}, shape, dtype}),
          compute(block, OpKind::copy, {shared[1]}, {{"interleave", "sin"}, shape, dtype})};
}

Rotation rotation_of(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind) {
  const auto& rotary = std::get<RotaryPosition>(context.decoder.position);
  const bool all = context.latent() != nullptr || rotary.rotary_dim == context.attention.head_dim;
  Rotation rotation;
  rotation.tables = tables_of(block, context, kind);
  const bool heads_rotate = rotary.rotary_dim == context.attention.head_dim;
  rotation.channels = heads_rotate ? context.dims.d : Expr(Symbol::rotary_dim);
  if (!context.program.library_functions) return rotation;
  const Habits& habits = context.habits;
  rotation.by_cat = habits.rotates_by_cat || !all;
  rotation.joins_at_once = habits.joins_at_once;
  rotation.joined_replaces = habits.joined_replaces;
  rotation.type = habits.rotation;
  rotation.casts_back = habits.tables_in_fp32 || rotation.type != RotationType::given;
  return rotation;
}

void rotate_whole(BlockBuilder& block, const Rotation& rotation, AttentionInputs& inputs) {
  Heads& q = inputs.q;
  Heads& k = inputs.k;
  Frame frame(block);
  const DType dtype = block.dtype_of(q.id);
  for (const TensorId table : rotation.tables) frame.local(table);
  // Cohere's apply_rotary_pos_emb: q.float(), k.float() at its start.
  if (rotation.type == RotationType::whole_in_fp32) {
    q.id = frame.local(cast(block, {"q_rotary", "in fp32"}, q.id, DType::fp32));
    k.id = frame.local(cast(block, {"k_rotary", "in fp32"}, k.id, DType::fp32));
  }
  const TensorId of_q = rotated(block, "q_rotary", q.id, rotation);
  if (!rotation.joined_replaces) frame.local(of_q);
  const TensorId of_k = rotated(block, "k_rotary", k.id, rotation);
  if (!rotation.joined_replaces) frame.local(of_k);
  q = {of_q, false};
  k = {of_k, false};
  if (!rotation.casts_back) return;
  q = {cast(block, {"q_rotary", "in type"}, of_q, dtype), false};
  k = {cast(block, {"k_rotary", "in type"}, of_k, dtype), false};
}

void rotate_by_cat(BlockBuilder& block, const Rotation& rotation, Frame& names,
                   AttentionInputs& inputs) {
  Heads& q = inputs.q;
  Heads& k = inputs.k;
  for (const TensorId table : rotation.tables) names.local(table);
  const Channels of_q = channels_of(block, "q_rotary", q.id, rotation.channels);
  const Channels of_k = channels_of(block, "k_rotary", k.id, rotation.channels);
  const auto joined = [&](std::string_view name, TensorId part, TensorId still, TensorId like) {
    return Heads{concatenate(block, {name}, {{part, still}}, block.tensor(like).shape), true};
  };
  const TensorId rotated_q = rotated(block, "q_rotary", of_q.turning, rotation);
  // Phi-3: torch.cat([(q_rot * cos) + (rotate_half(q_rot) * sin), q_pass]), and only then the keys'
  // line.
  if (rotation.joins_at_once) q = joined("q_rotary", rotated_q, of_q.still, q.id);
  const TensorId rotated_k = rotated(block, "k_rotary", of_k.turning, rotation);
  if (rotation.joins_at_once) {
    k = joined("k_rotary", rotated_k, of_k.still, k.id);
    return;
  }
  // GLM and GPT-NeoX: q_embed = torch.cat([q_embed, q_pass]); Phi and StableLM keep the names
  // query_rot and key_rot.
  if (!rotation.joined_replaces) {
    for (const TensorId part : {rotated_q, rotated_k}) names.local(part);
  }
  q = joined("q_rotary", rotated_q, of_q.still, q.id);
  k = joined("k_rotary", rotated_k, of_k.still, k.id);
}

/// torchtitan's: in fp32, neighbouring channels as complex numbers, times a table of the model's
/// (torchtitan/models/llama3/model/model.py, apply_rotary_emb).
TensorId complex_product(BlockBuilder& block, std::string_view name, TensorId x, TensorId table) {
  const TensorId out = block.make({name, "turned"}, block.tensor(x).shape, DType::fp32);
  Op op;
  op.kind = OpKind::rotary;
  op.name = name;
  op.inputs = {x, table};
  op.outputs = {out};
  op.saved = {table};
  BackwardWriter backward(op);
  // mul_tensor_backward: grad * other.conj(). The conjugate is a lazy bit, which
  // ConjugateFallback.cpp writes out before the product.
  const auto conjugate = backward.make(table, DType::fp32);
  const auto gradient = backward.make(x, DType::fp32);
  backward.drop(conjugate);
  backward.give(x, gradient);
  block.emit(std::move(op));
  return out;
}

/// Seen as numbers again. The gradient of a view is laid by rows first: one cast back comes so, one
/// that the math kernel hands on lies by heads.
TensorId as_numbers(BlockBuilder& block, std::string_view name, TensorId x, std::int64_t heads) {
  if (heads == 1) return x;
  return view_copied_back(block, {name, "as numbers"}, x, block.tensor(x).shape);
}

/// Rows of the model's table at the positions of this rank of several: those of one sequence are
/// looked up by int64 numbers.
TensorId at_positions(BlockBuilder& block, const DecoderContext& context, const Made& rows) {
  std::vector<TensorId> numbers;
  // reshape_for_broadcast: freqs_cis[positions.squeeze(0)] for one row of positions, else
  // torch.gather. prepare_context_parallel_input makes int32 positions, which indexing casts to
  // int64.
  if (context.policy.micro_batch == 1) {
    const Place place{rows.place.op, "positions"};
    numbers.push_back(compute(block, OpKind::cast, {}, {place, context.dims.rows(), DType::int64}));
  }
  return compute(block, OpKind::copy, numbers, rows);
}

/// The model's table or, of a sequence that lies on several ranks, its rows at this rank's
/// positions.
TensorId rotations(BlockBuilder& block, const DecoderContext& context) {
  const Dimensions& dims = context.dims;
  const Expr pairs = dims.d / Expr(2);
  if (context.policy.context == 1 || context.program.cuts_rotations) {
    // A complex64 buffer of the model: s 8192 of 64 pairs is 4 MiB.
    const TensorId table = block.shared("freqs_cis", {dims.s, pairs, Expr(2)}, DType::fp32);
    block.tensor(table).role = Role::buffer;
    return table;
  }
  return at_positions(
      block, context,
      {{"freqs_cis", "at positions"}, {dims.b, dims.s, pairs, Expr(2)}, DType::fp32});
}

void rotate_as_complex(BlockBuilder& block, const RotaryCall& call, AttentionInputs& inputs) {
  const DecoderContext& context = call.context;
  const DType dtype = block.dtype_of(inputs.q.id);
  Frame frame(block);
  const TensorId q = frame.local(cast(block, {"q_rotary", "in fp32"}, inputs.q.id, DType::fp32));
  const TensorId k = frame.local(cast(block, {"k_rotary", "in fp32"}, inputs.k.id, DType::fp32));
  const TensorId table = frame.local(rotations(block, context));
  TensorId rotated_q = frame.local(complex_product(block, "q_rotary", q, table));
  const std::int64_t ranks = context.policy.tensor;
  const auto& attention = context.attention;
  // So the math kernel's gradients lie, and a ring's.
  const bool by_heads = attention_call(context, call.kind).kernel == AttentionKernel::sdpa_math ||
                        context.policy.context > 1;
  if (by_heads) rotated_q = as_numbers(block, "q_rotary", rotated_q, attention.heads / ranks);
  TensorId rotated_k = frame.local(complex_product(block, "k_rotary", k, table));
  // The sum of the gradients of its repeats lies by tokens.
  if (by_heads && !context.repeats_by_tokens())
    rotated_k = as_numbers(block, "k_rotary", rotated_k, attention.kv_heads / ranks);
  inputs.q = {cast(block, {"q_rotary", "in type"}, rotated_q, dtype), false};
  inputs.k = {cast(block, {"k_rotary", "in type"}, rotated_k, dtype), false};
}

/// DeepSeek V2's: neighbouring channels as complex numbers in fp32.
void rotate_neighbours_as_complex(BlockBuilder& block, const DecoderContext& context,
                                  const LayerKind& kind, AttentionInputs& inputs) {
  const DType dtype = block.dtype_of(inputs.q.id);
  Frame frame(block);
  const TensorId q = frame.local(cast(block, {"q_rotary", "in fp32"}, inputs.q.id, DType::fp32));
  const TensorId k = frame.local(cast(block, {"k_rotary", "in fp32"}, inputs.k.id, DType::fp32));
  const TensorId table = block.shared(
      kComplexRotations, {Expr(1), context.dims.s, Expr(Symbol::rotary_dim) / Expr(2), Expr(2)},
      DType::fp32);
  TensorId rotated_q = complex_product(block, "q_rotary", q, table);
  // Seen as numbers again: the gradient is laid by rows first, where it is a part of the queries'
  // or a cast of one that the memory-efficient kernel makes by tokens.
  const bool by_tokens = attention_call(context, kind).kernel == AttentionKernel::sdpa_efficient &&
                         context.attention.heads > 1;
  if (dtype == DType::fp32 || by_tokens) {
    rotated_q = view_copied_back(block, {"q_rotary", "as numbers"}, rotated_q,
                                 block.tensor(rotated_q).shape);
  }
  inputs.q = {cast(block, {"q_rotary", "in type"}, rotated_q, dtype), false};
  const TensorId rotated_k = complex_product(block, "k_rotary", k, table);
  inputs.k = {cast(block, {"k_rotary", "in type"}, rotated_k, dtype), false};
}

/// Channels of one parity.
struct Neighbours {
  TensorId even = 0;
  TensorId odd = 0;
  bool named = false;  ///< the program gives their rotated halves names; else it lists them
};

Neighbours neighbours_of(BlockBuilder& block, std::string_view name, TensorId x) {
  Shape half = block.tensor(x).shape;
  half.back() = half.back() / Expr(2);
  // q[..., 0::2], q[..., 1::2].
  const TensorId even = slice(block, {name, "even channels"}, x, half);
  return {even, slice(block, {name, "odd channels"}, x, half)};
}

/// [even·cos - odd·sin, odd·cos + even·sin], one behind the other.
TensorId rotated_in_halves(BlockBuilder& block, std::string_view name, const Neighbours& x,
                           const std::vector<TensorId>& tables) {
  Shape whole = block.tensor(x.even).shape;
  whole.back() = Expr(2) * whole.back();
  const TensorId even_cosine = multiply(block, {name, "even cosine"}, x.even, tables[0]);
  const TensorId odd_sine = multiply(block, {name, "odd sine"}, x.odd, tables[1]);
  const TensorId low = subtract(block, {name, "low half"}, even_cosine, odd_sine);
  const TensorId odd_cosine = multiply(block, {name, "odd cosine"}, x.odd, tables[0]);
  const TensorId even_sine = multiply(block, {name, "even sine"}, x.even, tables[1]);
  const TensorId high = add(block, {name, "high half"}, odd_cosine, even_sine);
  Frame list(block);
  // A list releases its last element first.
  for (const TensorId half : {x.named ? low : high, x.named ? high : low}) list.local(half);
  return concatenate(block, {name}, {{low, high}}, std::move(whole));
}

/// GPT-OSS's: a head's two halves.
Heads rotated_halves(BlockBuilder& block, std::string_view name, TensorId x,
                     const std::vector<TensorId>& tables) {
  Shape half = block.tensor(x).shape;
  half.back() = half.back() / Expr(2);
  // torch.chunk(x, 2, dim=-1): one split, whose backward joins both gradients in one tensor.
  const std::vector<TensorId> halves =
      split(block, name, x, {{{name, "first half"}, half}, {{name, "second half"}, half}});
  return {rotated_in_halves(block, name, {halves[0], halves[1], true}, tables), true};
}

/// DeepSeek V3's: the tables' first halves have an angle for each pair of neighbours.
void rotate_neighbours_in_halves(BlockBuilder& block, const DecoderContext& context,
                                 const LayerKind& kind, AttentionInputs& inputs) {
  std::vector<TensorId> tables = tables_of(block, context, kind);
  const auto first_half = [&](std::string_view name, TensorId table) {
    Shape half = block.tensor(table).shape;
    half.back() = half.back() / Expr(2);
    return block.alias({"rotary", name}, table, std::move(half));
  };
  tables = {first_half("cos of pairs", tables[0]), first_half("sin of pairs", tables[1])};
  const Neighbours of_q = neighbours_of(block, "q_rotary", inputs.q.id);
  const Neighbours of_k = neighbours_of(block, "k_rotary", inputs.k.id);
  inputs.q = {rotated_in_halves(block, "q_rotary", of_q, tables), true};
  inputs.k = {rotated_in_halves(block, "k_rotary", of_k, tables), true};
}

/// torchtitan's Qwen3 casts its own part of the table in every layer, where the layer is not called
/// with a cast one (torchtitan/models/qwen3/model/model.py, apply_rotary_emb).
Rotation rotation_by_layer(BlockBuilder& block, const DecoderContext& context, DType dtype) {
  const Dimensions& dims = context.dims;
  TensorId table = block.find({kRopeCache, "in type"}).value_or(rope_cache(block, context));
  if (context.policy.context > 1) {
    const Shape rows = {dims.b, dims.s, Expr(1), Expr(2) * dims.d};
    table =
        at_positions(block, context, {{kRopeCache, "at positions"}, rows, block.dtype_of(table)});
  }
  const Shape shape = {Expr(1), dims.s, Expr(1), dims.d};
  const TensorId cosines = block.alias({kRopeCache, "cosines"}, table, shape);
  const TensorId sines = block.alias({kRopeCache, "sines"}, table, shape);
  Rotation rotation;
  rotation.channels = dims.d;
  rotation.tables = {cast(block, {kRopeCache, "cos"}, cosines, dtype),
                     cast(block, {kRopeCache, "sin"}, sines, dtype)};
  return rotation;
}

}  // namespace

AttentionInputs rotate(BlockBuilder& block, const RotaryCall& call, AttentionInputs inputs) {
  const DecoderContext& context = call.context;
  if (context.liger().rope) {
    return liger_rotate(block, call, inputs, tables_of(block, context, call.kind));
  }
  if (context.program.rotations == Rotations::in_turn) return inputs;  // where they are projected
  if (context.program.rotations == Rotations::joined) return rotated_joined(block, call, inputs);
  if (context.program.rotations == Rotations::complex) {
    Frame renaming(block);
    for (const TensorId raw : {inputs.q.id, inputs.k.id}) renaming.local(raw);
    if (context.has_rope_cache()) {
      const DType dtype = block.dtype_of(inputs.q.id);
      rotate_whole(block, rotation_by_layer(block, context, dtype), inputs);
    } else {
      rotate_as_complex(block, call, inputs);
    }
    return inputs;
  }
  if (context.latent() != nullptr && context.latent()->rotates_neighbours) {
    if (context.habits.latents == LatentWriting::complex_pairs) {
      rotate_neighbours_as_complex(block, context, call.kind, inputs);
    } else {
      rotate_neighbours_in_halves(block, context, call.kind, inputs);
    }
    return inputs;
  }
  if (context.habits.rotates_halves) {
    Frame renaming(block);
    for (const TensorId raw : {inputs.q.id, inputs.k.id}) renaming.local(raw);
    const std::vector<TensorId> tables = tables_of(block, context, call.kind);
    inputs.q = rotated_halves(block, "q_rotary", inputs.q.id, tables);
    inputs.k = rotated_halves(block, "k_rotary", inputs.k.id, tables);
    return inputs;
  }
  const Rotation rotation = rotation_of(block, context, call.kind);
  // Who takes the channels apart in attention's own function names the parts.
  const bool own = rotation.by_cat && context.habits.names_channels;
  Frame rotating(block);
  Frame& names = own ? call.attention : rotating;
  for (const TensorId raw : {inputs.q.id, inputs.k.id}) names.local(raw);
  if (rotation.by_cat) {
    rotate_by_cat(block, rotation, names, inputs);
  } else {
    rotate_whole(block, rotation, inputs);
  }
  return inputs;
}

}  // namespace memest
