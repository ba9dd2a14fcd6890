#include "graph/lower/attention/attention.hpp"

#include <utility>

#include "graph/lower/flash_attn/flash_attn.hpp"
#include "graph/lower/float8/float8_parallel.hpp"
#include "graph/lower/litgpt/litgpt.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/lower/torchtune/torchtune.hpp"

namespace memest {
namespace {

/// Where projections happen: in attention's own function, before a rotation or none.
struct ProjectionCall {
  const AttentionCall& attention;
  bool rotates = false;
  Frame& function;
};

/// Queries, keys and values before position and kernel, as views of what the projections make.
class Projections {
 public:
  Projections(BlockBuilder& block, const DecoderContext& context, const ProjectionCall& call)
      : block_(block),
        context_(context),
        dims_(context.dims),
        spec_(context.attention),
        attention_(call.function),
        rotates_(call.rotates),
        repeats_(call.attention.repeats),
        // The cache's torch.cat makes keys and values packed by heads, and flash and cuDNN make
        // gradients that lie as their operands do (at::empty_like).
        gradients_like_(call.attention.kernel == AttentionKernel::sdpa_flash ||
                        call.attention.kernel == AttentionKernel::sdpa_cudnn ||
                        call.attention.kernel == AttentionKernel::flash_2),
        packs_gradients_(gradients_like_ && context.caches()),
        packs_all_gradients_(gradients_like_ && context.policy.unpacks_by_rows()),
        written_out_(call.attention.kernel == AttentionKernel::eager ||
                     call.attention.kernel == AttentionKernel::sdpa_math) {}

  AttentionInputs write(TensorId x) {
    return spec_.layout == QkvLayout::fused ? fused(x) : separate(x);
  }

 private:
  TensorId project(std::string_view name, const Expr& out, bool bias, TensorId x) {
    return projection(block_, context_, {name, dims_.h, out, bias, false, context_.bias_call()},
                      {dims_.rows(), x});
  }

  Shape by_head(const Expr& heads) const { return {dims_.b, dims_.s, heads, dims_.d}; }

  TensorId full_width_norm(std::string_view name, const Expr& width, TensorId x) {
    if (spec_.qk_norm != QkNorm::full_width) return x;
    return norm(block_, context_, {name, spec_.qk_norm_kind, {width}}, x);
  }

  enum class Part : std::uint8_t { q, k, v };

  [[nodiscard]] static std::string_view projection_of(Part part) {
    return part == Part::q ? "q_proj" : part == Part::k ? "k_proj" : "v_proj";
  }
  /// Values have no norm.
  [[nodiscard]] static std::string_view norm_of(Part part) {
    return part == Part::q ? "q_norm" : "k_norm";
  }

  [[nodiscard]] const Expr& count_of(Part part) const {
    return part == Part::q ? dims_.a : dims_.k;
  }

  Heads head_norm(Part part, TensorId x) {
    const std::string_view name = norm_of(part);
    switch (spec_.qk_norm) {
      case QkNorm::none:
      case QkNorm::full_width:
        return {x};
      case QkNorm::per_head: {
        const std::int64_t count = part == Part::q ? spec_.heads : spec_.kv_heads;
        // PhiAttention norms view(...).transpose(1, 2), and layer_norm's kernel calls
        // input.expect_contiguous() (native/cuda/layer_norm_kernel.cu).
        const bool kernel = spec_.qk_norm_kind.kind == NormKind::layernorm;
        const TensorId out =
            norm(block_, context_, {name, spec_.qk_norm_kind, {dims_.d}, kernel && count > 1}, x);
        // parallelize_qwen3: wq and wk answer DTensors, q_norm and k_norm are SequenceParallel.
        block_.tensor(out).distributed = context_.shards_tensors();
        return {out};
      }
      case QkNorm::per_head_own:
        return {norm(block_, context_, {name, spec_.qk_norm_kind, {count_of(part), dims_.d}}, x)};
    }
    return {x};
  }

  AttentionInputs separate(TensorId x) {
    const Expr q_width = dims_.a * dims_.d;
    const Expr kv_width = dims_.k * dims_.d;
    if (context_.program.rotations == Rotations::in_turn) return in_turn(x);
    const ProjectionOrder order = context_.habits.projections;
    const auto seen = [&](Part part, TensorId given, bool now) {
      return now ? heads(part, given) : given;
    };
    const auto normed = [&](Part part, Heads given, bool now) {
      return now ? head_norm(part, given.id) : given;
    };
    const bool sees = order != ProjectionOrder::views_last;
    const bool norms = order == ProjectionOrder::norm_by_norm;
    TensorId raw = full_width_norm("q_norm", q_width, project("q_proj", q_width, spec_.q_bias, x));
    // OPTAttention.forward: q_proj(hidden_states) * self.scaling.
    if (context_.habits.scales_queries) {
      raw = scale(block_, {"q_proj", "scaled"}, raw);
    }
    Heads q = normed(Part::q, {seen(Part::q, raw, sees)}, norms);
    raw = full_width_norm("k_norm", kv_width, project("k_proj", kv_width, spec_.kv_bias, x));
    Heads k = normed(Part::k, {seen(Part::k, raw, sees)}, norms);
    raw = project("v_proj", kv_width, spec_.kv_bias, x);
    Heads v = {seen(Part::v, raw, sees)};
    q.id = seen(Part::q, q.id, !sees);
    k.id = seen(Part::k, k.id, !sees);
    v.id = seen(Part::v, v.id, !sees);
    q = normed(Part::q, q, !norms);
    k = normed(Part::k, k, !norms);
    return {q, k, v};
  }

  // MultiHeadAttention.forward of torchtune: q rotates before k is projected, k behind v.
  AttentionInputs in_turn(TensorId x) {
    const auto project_heads = [&](Part part, bool bias) {
      const std::string_view name = projection_of(part);
      const TensorId raw = project(name, count_of(part) * dims_.d, bias, x);
      return heads(part, raw);
    };
    const auto turned = [&](std::string_view name, TensorId raw) {
      Frame renaming(block_);
      renaming.local(raw);
      return Heads{rotates_ ? rotated_by_table(block_, context_, name, raw) : raw};
    };
    const Heads q = turned("q_rotary", project_heads(Part::q, spec_.q_bias));
    const TensorId k = project_heads(Part::k, spec_.kv_bias);
    const TensorId v = project_heads(Part::v, spec_.kv_bias);
    return {q, turned("k_rotary", k), {v}};
  }

  /// [b, s, heads · d] seen as [b, s, heads, d]. A rotation, repeated heads and products give back
  /// gradients that lie by heads, which the old shape cannot show; of the transposed keys and of a
  /// single head it can, but the rows of a projection of their own it can only for one sequence.
  TensorId heads(Part part, TensorId x) {
    const std::string_view name = projection_of(part);
    const Expr& count = count_of(part);
    const bool of_v = part == Part::v;
    const bool of_k = part == Part::k;
    const bool by_rows = of_k && spec_.layout == QkvLayout::separate &&
                         context_.policy.micro_batch > 1 && context_.program.library_functions;
    const bool repeats = repeats_ || packs_gradients_ || context_.repeats_by_heads();
    // Liger's rotation answers gradients by rows, whatever it is given (rope_backward).
    const bool by_liger = rotates_ && context_.liger().rope && !of_v;
    const bool packed_gradient =
        !by_liger && ((rotates_ && !of_v) || (repeats && (of_k || of_v)) || packs_all_gradients_ ||
                      (written_out_ && (!of_k || by_rows)));
    // torchtitan rotates in fp32: the gradient's copy in the given type lies by rows. The values'
    // one comes from the math kernel by heads, and so it does from a ring, unless repeats of the
    // heads are summed first.
    if (context_.program.rotations == Rotations::complex) {
      const bool by_heads = of_v && (written_out_ || context_.policy.context > 1) &&
                            spec_.kv_heads > context_.policy.tensor &&
                            !context_.repeats_by_tokens();
      return by_heads ? view_copied_back(block_, {name, "heads"}, x, by_head(count))
                      : view(block_, {name, "heads"}, x, by_head(count));
    }
    const bool single = (of_k || of_v ? spec_.kv_heads : spec_.heads) == 1;
    // The gradient of channels taken out one by one lies by tokens, that of heads which repeats are
    // summed to by heads.
    if (context_.program.rotations == Rotations::in_turn) {
      const bool by_heads = of_v && !single && (written_out_ || context_.repeats_by_heads());
      return by_heads ? view_copied_back(block_, {name, "heads"}, x, by_head(count))
                      : view(block_, {name, "heads"}, x, by_head(count));
    }
    if (packed_gradient && !single) {
      return view_copied_back(block_, {name, "heads"}, x, by_head(count));
    }
    return view(block_, {name, "heads"}, x, by_head(count));
  }

  AttentionInputs fused(TensorId x) {
    const Expr width = (dims_.a + Expr(2) * dims_.k) * dims_.d;
    const Projection2d shape{"qkv_proj", dims_.h, width, spec_.q_bias, false, context_.bias_call()};
    const TensorId both = adapts_joint_parts(context_)
                              ? joint_lora(block_, context_, shape, {dims_.rows(), x})
                              : projection(block_, context_, shape, {dims_.rows(), x});
    if (context_.habits.names_qkv) attention_.local(both);
    const bool grouped = spec_.kv_heads < spec_.heads;
    switch (context_.habits.qkv_split) {
      case QkvSplit::columns:
      case QkvSplit::columns_in_order:
        return columns(both);
      // GPTBigCodeAttention.forward: with multi_query split((h, 2·d)), else view(b, s, heads,
      // 3·d).transpose(1, 2) and split by d.
      case QkvSplit::columns_or_transposed:
        return grouped ? columns(both) : transposed(both);
      case QkvSplit::transposed:
        return transposed(both);
      case QkvSplit::slices:
        return slices(both);
      case QkvSplit::unbound:
        return unbound(both);
      case QkvSplit::selected:
        if (!grouped) return selected(both);
        return spec_.kv_heads == 1 ? indexed(both) : groups(both);
    }
    return columns(both);
  }

  AttentionInputs columns(TensorId both) {
    const auto part = [&](std::string_view name, const Expr& count) {
      return SplitPart{{"qkv_proj", name}, {dims_.b, dims_.s, count * dims_.d}};
    };
    const std::vector<TensorId> parts = split(
        block_, "qkv_proj", both, {part("q", dims_.a), part("k", dims_.k), part("v", dims_.k)});
    // MptAttention reshapes query, key, value in turn; GPT2Attention views key and value first,
    // queries last.
    const bool first = context_.habits.qkv_split == QkvSplit::columns_in_order;
    TensorId q = first ? heads(Part::q, parts[0]) : parts[0];
    const TensorId k = heads(Part::k, parts[1]);
    const TensorId v = heads(Part::v, parts[2]);
    if (!first) q = heads(Part::q, q);
    return by_heads(q, k, v);
  }

  // GPTNeoXAttention.forward: qkv.view(b, s, a, 3·d).transpose(1, 2).chunk(3, -1): all three are
  // views of one tensor, which stays whole as long as the values do.
  AttentionInputs transposed(TensorId both) {
    const Shape shape = {dims_.b, dims_.s, dims_.a, Expr(3) * dims_.d};
    const Place place = {"qkv_proj", "by head"};
    both = spec_.heads == 1 ? view(block_, place, both, shape)
                            : view_copied_back(block_, place, both, shape);
    const std::vector<TensorId> parts = split(block_, "qkv_proj", both,
                                              {{{"qkv_proj", "q"}, by_head(dims_.a)},
                                               {{"qkv_proj", "k"}, by_head(dims_.k)},
                                               {{"qkv_proj", "v"}, by_head(dims_.k)}});
    return by_heads(parts[0], parts[1], parts[2]);
  }

  // Phi3Attention.forward: qkv[..., :query_pos] and so on. Each slice_backward makes zeros of the
  // whole width: three times (a + 2k)·d a token, where one split makes it once.
  AttentionInputs slices(TensorId both) {
    const auto part = [&](std::string_view name, const Expr& count) {
      return slice(block_, {"qkv_proj", name}, both, {dims_.b, dims_.s, count * dims_.d});
    };
    const TensorId q = part("q", dims_.a);
    const TensorId k = part("k", dims_.k);
    const TensorId v = part("v", dims_.k);
    const TensorId q_heads = heads(Part::q, q);
    const TensorId k_heads = heads(Part::k, k);
    return by_heads(q_heads, k_heads, heads(Part::v, v));
  }

  // reshape(s, 3, heads, d).permute(1, 0, 2, 3).unbind(0), whose backward stacks the three.
  AttentionInputs unbound(TensorId both) {
    const Shape three = {Expr(3), dims_.b * dims_.s, dims_.a, dims_.d};
    both = view_copied_back(block_, {"qkv_proj", "three of heads"}, both, three);
    const std::vector<TensorId> parts = split(block_, "qkv_proj", both,
                                              {{{"qkv_proj", "q"}, by_head(dims_.a)},
                                               {{"qkv_proj", "k"}, by_head(dims_.k)},
                                               {{"qkv_proj", "v"}, by_head(dims_.k)}});
    return {{parts[0]}, {parts[1]}, {parts[2]}};
  }

  AttentionInputs selected(TensorId both) {
    const TensorId q = slice(block_, {"qkv_proj", "q"}, both, by_head(dims_.a));
    const TensorId k = slice(block_, {"qkv_proj", "k"}, both, by_head(dims_.k));
    return by_heads(q, k, slice(block_, {"qkv_proj", "v"}, both, by_head(dims_.k)));
  }

  // FalconAttention._split_heads of Falcon-7B: [..., [-2], :] indexes with a list, which is
  // index.Tensor, a copy, where [..., -2, :] would be a view.
  AttentionInputs indexed(TensorId both) {
    const TensorId q = slice(block_, {"qkv_proj", "q"}, both, by_head(dims_.a));
    const TensorId k = index_out("k_split", both, by_head(dims_.k));
    return by_heads(q, k, index_out("v_split", both, by_head(dims_.k)));
  }

  /// Every group of heads is one slice with its key and value: written out by heads.
  AttentionInputs groups(TensorId both) {
    const Shape by_group = {dims_.b, dims_.s, dims_.k, dims_.a / dims_.k, dims_.d};
    const Shape whole = by_head(dims_.a);
    const TensorId q = slice(block_, {"qkv_proj", "q"}, both, by_group);
    Frame splitting(block_);
    const TensorId k = splitting.local(index_out("k_split", both, by_head(dims_.k)));
    const TensorId v = splitting.local(index_out("v_split", both, by_head(dims_.k)));
    const TensorId q_heads = copy(block_, {"q_heads"}, q, whole);
    const Repeats repeats{whole, dims_.b * dims_.s * dims_.k, dims_.a / dims_.k, dims_.d};
    const TensorId k_heads = repeated_copy(block_, "k_heads", k, repeats);
    return by_heads(q_heads, k_heads, repeated_copy(block_, "v_heads", v, repeats));
  }

  /// Advanced indexing copies, and keeps its index. Its backward sorts the index, of one element.
  TensorId index_out(std::string_view name, TensorId x, const Shape& shape) {
    const TensorId index = block_.make({name, "index"}, {Expr(1)}, DType::int64);
    const TensorId out = block_.make({name}, shape, block_.dtype_of(x));
    Op op;
    op.kind = OpKind::copy;
    op.name = name;
    op.inputs = {x};
    op.outputs = {index, out};
    op.saved = {index};
    BackwardWriter backward(op);
    const auto whole = backward.make(x, block_.dtype_of(x));
    const auto wrapped = backward.make(index, DType::int64);
    std::vector<BackwardWriter::Made> sorting = {backward.make(index, DType::int64)};
    backward.drop(wrapped);
    for (int i = 0; i < 3; ++i) sorting.push_back(backward.make(index, DType::int64));
    sorting.push_back(backward.make(index, DType::uint8));
    for (; !sorting.empty(); sorting.pop_back()) backward.drop(sorting.back());
    backward.give(x, whole);
    block_.emit(std::move(op));
    return out;
  }

  AttentionInputs by_heads(TensorId q, TensorId k, TensorId v) {
    const Heads of_q = head_norm(Part::q, q);
    const Heads of_k = head_norm(Part::k, k);
    return {of_q, of_k, {v}};
  }

  BlockBuilder& block_;
  const DecoderContext& context_;
  const Dimensions& dims_;
  const SoftmaxAttention& spec_;
  Frame& attention_;  // its own function
  bool rotates_;
  bool repeats_;
  bool gradients_like_;       // their operands
  bool packs_gradients_;      // of keys and values, which lie as their packed copies in the cache
  bool packs_all_gradients_;  // as all operands do that come back from page-locked memory
  bool written_out_;          // as products of batches
};

}  // namespace

TensorId attention(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                   const Branch& branch) {
  if (context.latent() != nullptr) return latent_attention(block, context, kind, branch.x);
  const TensorId x = branch.x;
  const Dimensions& dims = context.dims;
  const auto& spec = context.attention;
  AttentionCall call = attention_call(context, kind);
  Frame frame(block);
  call.function = &frame;
  const bool rotates =
      std::holds_alternative<RotaryPosition>(context.decoder.position) && kind.rotates;
  AttentionInputs inputs = Projections(block, context, {call, rotates, frame}).write(x);
  if (rotates) inputs = rotate(block, {context, kind, frame}, inputs);
  if (context.repeats_by_tokens()) inputs = repeated_by_tokens(block, context, inputs);
  if (context.repeats_by_heads()) inputs = repeated_by_heads(block, context, inputs);
  if (context.caches()) update_cache(block, context, kind, inputs);
  // FalconFlashAttention2.forward gives each cast the name of what it casts.
  if (call.kernel == AttentionKernel::flash_2 && context.habits.qkv_split == QkvSplit::selected) {
    inputs = cast_for_package(block, context, inputs);
  }
  for (const TensorId local : {inputs.q.id, inputs.k.id, inputs.v.id}) frame.local(local);
  const TensorId mixed = context.parts != nullptr
                             ? attention_by_parts(block, {context, kind, frame}, inputs)
                             : mixed_values(block, context, call, inputs);
  const TensorId operand = summed_input(block, context, "o_proj", mixed);
  if (operand != mixed) frame.local(mixed);
  hold_with_scale(block, frame, x);
  // y = self.resid_dropout(self.c_proj(y)): the old y, the joined heads, has its name until the
  // right side is done.
  if (context.program.names_attention) frame.local(mixed);
  Frame product(block);
  if (context.shards_tensors()) hold_with_scale(block, product, operand);
  TensorId out = projection(block, context,
                            {"o_proj", dims.a * dims.d, dims.h, spec.output_bias, false,
                             context.bias_call(), context.summed_rows()},
                            {dims.rows(), operand});
  out = scattered_output(block, context, "attention_shard", out);
  if (branch.residual)
    return dropped_sum(block, context, BranchKind::attention, {out, branch.residual});
  return dropout(block, "attention_output_dropout", context.dropout_inside(), out);
}

}  // namespace memest
