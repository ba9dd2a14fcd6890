#include <optional>
#include <utility>

#include "graph/lower/compile/compiled_region.hpp"
#include "graph/lower/float8/float8_parallel.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"

namespace memest {
namespace {

/// A layer being written: residual stream in, residual stream out.
class LayerWriter {
 public:
  LayerWriter(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind)
      : context_(context), kind_(kind), block_(block) {}

  TensorId write(TensorId x) {
    // The layer is called with these; a checkpoint holds what it was called with.
    name_arguments();
    switch (context_.decoder.layout) {
      case BlockLayout::pre_norm: {
        const TensorId y = attention_sublayer(x);
        return feed_forward_sublayer(y);
      }
      case BlockLayout::post_norm: {
        const TensorId y =
            normalize("attention_norm", residual("attention_residual", x, attend(x)));
        if (context_.habits.feeds_inline) {
          return normalize("feed_forward_norm", fed_inline(y, false));
        }
        return normalize("feed_forward_norm", residual("feed_forward_residual", y, feed(y)));
      }
      // Gemma2DecoderLayer, Glm4DecoderLayer: a norm before and behind each branch.
      case BlockLayout::sandwich: {
        const TensorId mixed =
            normalize("attention_output_norm", attend(normalize("attention_norm", x)));
        const TensorId y = residual("attention_residual", x, mixed);
        const TensorId fed =
            normalize("feed_forward_output_norm", feed(normalize("feed_forward_norm", y)));
        return residual("feed_forward_residual", y, fed);
      }
      // Olmo2DecoderLayer: residual + post_attention_layernorm(self_attn(x)).
      case BlockLayout::output_norm: {
        const TensorId y =
            residual("attention_residual", x, normalize("attention_output_norm", attend(x)));
        return residual("feed_forward_residual", y, normalize("feed_forward_output_norm", feed(y)));
      }
      // PhiDecoderLayer, CohereDecoderLayer, GPTJBlock, Falcon-7B: both branches read one norm.
      case BlockLayout::parallel_one_norm: {
        if (context_.habits.joins_in_turn) return joined_in_turn(x, "input_norm");
        const TensorId normalized = named(LayerLocals::first_norm, normalize("input_norm", x));
        const TensorId mixed = attend(normalized);  // named: the order of arguments is not fixed
        return join(x, mixed, feed(normalized));
      }
      case BlockLayout::parallel_two_norms: {
        if (context_.habits.joins_in_turn) return joined_in_turn(x, "attention_norm");
        const TensorId for_attention = named(LayerLocals::all, normalize("attention_norm", x));
        // GPTNeoXLayer norms inside the call of its MLP; Falcon makes ln_attn and ln_mlp first.
        if (context_.habits.norms_between_branches) {
          const TensorId mixed = attend(for_attention);
          return join(x, mixed, feed(normalize("feed_forward_norm", x)));
        }
        const TensorId for_feed_forward =
            named(LayerLocals::all, normalize("feed_forward_norm", x));
        const TensorId mixed = attend(for_attention);
        return join(x, mixed, feed(for_feed_forward));
      }
    }
    return x;
  }

 private:
  /// Names the layer's arguments, which a checkpoint holds whether they are read or not.
  void name_arguments() {
    const Dimensions& dims = context_.dims;
    const LayerArguments arguments = context_.program.layer_arguments;
    if (arguments == LayerArguments::rope_cache) return cast_rotary_table();
    if (arguments == LayerArguments::none) return;
    if (context_.parts != nullptr) {
      const auto count = static_cast<std::int64_t>(context_.parts->lengths.size());
      block_.shared(context_.parts->bounds, {Expr(count + 1)}, DType::int32);
    }
    if (context_.habits.passes_positions) {
      block_.shared("position ids", {dims.s}, DType::int64);
    }
    const bool alibi = std::holds_alternative<AlibiPosition>(context_.decoder.position);
    if (!alibi || context_.habits.alibi != AlibiWriting::of_int64_mask) return;
    const DType dtype = context_.policy.weights;
    block_.shared("alibi", {dims.b, dims.a, dims.s}, dtype);
    for (const std::string_view table : {"cos", "sin"}) {
      block_.shared(table, {Expr(1), dims.s, dims.d}, dtype);
    }
  }

  /// FSDP2 casts the real numbers that a layer is called with, before it gathers the layer.
  void cast_rotary_table() {
    if (!context_.policy.casts_arguments || !context_.has_rope_cache()) return;
    Op op;
    op.kind = OpKind::cast;
    op.name = kRopeCache;
    op.by_caller = true;
    op.inputs = {rope_cache(block_, context_)};
    const Shape shape = block_.tensor(op.inputs.front()).shape;
    const TensorId out = block_.make({kRopeCache, "in type"}, shape, context_.policy.weights);
    op.outputs = {out};
    block_.emit(std::move(op));
    block_.hold_to_end(out);
  }

  /// Where `locals` or more have names of their own, x lives until the layer returns.
  TensorId named(LayerLocals locals, TensorId x) {
    if (context_.habits.locals >= locals) block_.hold_to_end(x);
    return x;
  }

  TensorId attention_sublayer(TensorId x) {
    Frame sublayer(block_);
    const TensorId normalized = named(LayerLocals::first_norm, normalize("attention_norm", x));
    if (names_norm() || names_sums()) sublayer.local(normalized);
    if (context_.habits.locals == LayerLocals::norms) {
      norm_to_rename_ = normalized;
    }
    if (context_.habits.sums_inside == SumsInside::everywhere) {
      return attention(block_, context_, kind_, {normalized, x});
    }
    const TensorId mixed = attend(normalized);
    if (context_.habits.drops_attention_as_scores) {
      return dropped_sum(block_, context_, BranchKind::attention,
                         {named(LayerLocals::branches, mixed), x});
    }
    if (context_.habits.sum_replaces_attention) {
      named_branch_ = mixed;
      return residual("attention_residual", x, mixed);
    }
    const TensorId sum = residual("attention_residual", x, named(LayerLocals::branches, mixed));
    if (names_sums()) {
      for (const TensorId local : {sum, mixed}) block_.hold_to_end(local);
    }
    return sum;
  }

  TensorId feed_forward_sublayer(TensorId x) {
    if (context_.habits.feeds_inline) return fed_inline(x, true);
    Frame sublayer(block_);
    const TensorId normalized = renamed_norm(x);
    if (names_norm()) sublayer.local(normalized);
    if (context_.habits.sums_inside != SumsInside::nowhere) {
      const auto& part = std::get<DenseFeedForward>(kind_.feed_forward);
      return feed_forward(block_, context_, part, {normalized, x});
    }
    const TensorId fed =
        named(names_sums() ? LayerLocals::sums : LayerLocals::branches, feed(normalized));
    return residual("feed_forward_residual", x, fed);
  }

  /// The feed-forward on rows without a function of its own, which names what it is added to.
  TensorId fed_inline(TensorId x, bool norm_first) {
    const Shape shape = block_.tensor(x).shape;
    // OPTDecoderLayer.forward: residual = hidden_states.reshape(-1, h).
    const TensorId rows = view(block_, {"feed_forward_norm", "rows"}, x, shape);
    block_.hold_to_end(rows);
    const TensorId fed = feed(norm_first ? normalize("feed_forward_norm", rows) : rows);
    const TensorId sum = residual("feed_forward_residual", rows, fed);
    return view(block_, {"feed_forward_residual", "by sequence"}, sum, shape);
  }

  /// The second norm, which takes the first one's name.
  TensorId renamed_norm(TensorId x) {
    Frame naming(block_);
    if (norm_to_rename_) naming.local(*norm_to_rename_);
    const TensorId out = normalize("feed_forward_norm", x);
    const LayerLocals least = norm_to_rename_ ? LayerLocals::norms : LayerLocals::all;
    return named(least, out);
  }

  [[nodiscard]] bool names_norm() const { return context_.habits.locals == LayerLocals::sublayers; }

  [[nodiscard]] bool names_sums() const { return context_.habits.locals == LayerLocals::sums; }

  TensorId normalize(std::string_view name, TensorId x) {
    NormPart part{name, context_.decoder.norm, {context_.dims.h}};
    part.transposed = context_.habits.stream_transposed;
    return norm(block_, context_, part, x);
  }

  /// litgpt's Block.forward: norm_2 behind attention, where it is, and then attention_output + x,
  /// which the feed-forward's result is added to.
  TensorId joined_in_turn(TensorId x, std::string_view first_norm) {
    TensorId normalized = normalize(first_norm, x);
    const TensorId mixed = named(LayerLocals::branches, attend(normalized));
    if (context_.decoder.layout == BlockLayout::parallel_two_norms) {
      norm_to_rename_ = normalized;
      normalized = renamed_norm(x);
    } else {
      named(LayerLocals::norms, normalized);
    }
    const TensorId sum = add(block_, {"attention_residual"}, mixed, x);
    return add(block_, {"feed_forward_residual"}, feed(normalized), sum);
  }

  /// One dropout for the sum of both branches, not one for each.
  [[nodiscard]] bool drops_joined() const {
    const BlockLayout layout = context_.decoder.layout;
    return context_.habits.drops_joined_branches &&
           (layout == BlockLayout::parallel_one_norm || layout == BlockLayout::parallel_two_norms);
  }

  TensorId drop(std::string_view name, TensorId x) {
    if (context_.dropout_inside() > 0) return x;
    if (context_.habits.drops_in_sum) named_branch_ = x;
    return dropout(block_, name, context_.dropout(context_.decoder.dropout.residual), x);
  }

  /// Granite's factor.
  TensorId factored(std::string_view name, TensorId x) {
    if (!context_.decoder.scaled_residual) return x;
    named_branch_ = x;
    return scale(block_, {name}, x);
  }

  TensorId attend(TensorId x) {
    const bool drops =
        (context_.habits.drops_attention_output && !context_.habits.drops_attention_as_scores);
    Frame call(block_);
    if (context_.shards_tensors()) call.local(x);
    TensorId out =
        attention(block_, context_, kind_, {gathered_input(block_, context_, "attention_norm", x)});
    if (drops && !drops_joined()) out = drop("attention_output_dropout", out);
    return factored("attention_output_scale", out);
  }

  TensorId feed(TensorId x) {
    if (const auto* experts = std::get_if<MixtureOfExperts>(&kind_.feed_forward)) {
      // Attention's second output has a name that the experts' output takes.
      Frame renaming(block_);
      if (context_.attention.sinks) renaming.local(kept_probabilities());
      const auto write = context_.program.mixture != nullptr ? context_.program.mixture : mixture;
      return write(block_, context_, *experts, x);
    }
    const auto& part = std::get<DenseFeedForward>(kind_.feed_forward);
    Frame call(block_);
    if (context_.shards_tensors()) call.local(x);
    TensorId out = feed_forward(block_, context_, part,
                                {gathered_input(block_, context_, "feed_forward_norm", x)});
    if (!drops_joined()) out = drop("feed_forward_dropout", out);
    return factored("feed_forward_scale", out);
  }

  [[nodiscard]] TensorId kept_probabilities() const {
    for (const Place place : {Place{"probabilities"}, Place{"attention_dropout"}}) {
      if (const auto found = block_.find(place)) return *found;
    }
    return *block_.find({"softmax", "without sinks"});
  }

  TensorId residual(std::string_view name, TensorId x, TensorId branch) {
    // The sum takes the name of the branch as it was before its factor and its dropout.
    Frame naming(block_);
    if (named_branch_) naming.local(*std::exchange(named_branch_, std::nullopt));
    return add(block_, {name}, x, branch);
  }

  TensorId join(TensorId x, TensorId mixed, TensorId fed) {
    for (const TensorId branch : {mixed, fed}) named(LayerLocals::branches, branch);
    if (context_.habits.joins_residual_first) {
      // CohereDecoderLayer: residual + attention + mlp, where Phi and GPT-NeoX add the branches
      // first.
      return add(block_, {"feed_forward_residual"}, add(block_, {"attention_residual"}, x, mixed),
                 fed);
    }
    const bool in_place = context_.habits.joins_in_place;
    TensorId both =
        // FalconDecoderLayer: mlp_output += attention_output.
        in_place ? add_in_place(fed, mixed) : add(block_, {"attention_residual"}, mixed, fed);
    if (drops_joined()) both = drop("branches_dropout", both);
    return add(block_, {"feed_forward_residual"}, x, both);
  }

  TensorId add_in_place(TensorId x, TensorId other) {
    const TensorId out = block_.alias({"attention_residual"}, x, block_.tensor(x).shape);
    Op op;
    op.kind = OpKind::add;
    op.name = "attention_residual";
    op.inputs = {x, other};
    op.outputs = {out};
    BackwardWriter backward(op);
    for (const TensorId id : {x, other}) backward.hand_on(id);
    block_.emit(std::move(op));
    return out;
  }

  const DecoderContext& context_;
  const LayerKind& kind_;
  BlockBuilder& block_;
  std::optional<TensorId> named_branch_;
  std::optional<TensorId> norm_to_rename_;
};

}  // namespace

TensorId write_layer(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                     TensorId x) {
  return LayerWriter(block, context, kind).write(x);
}

Block layer_block(const DecoderContext& context, const LayerKind& kind, StreamInput input) {
  const Dimensions& dims = context.dims;
  BlockBuilder writer(kind.sliding_window ? "layer (sliding window)" : "layer",
                      context.precision());
  Shape stream = dims.stream();
  stream.push_back(dims.h);
  const TensorId x =
      writer.block_input(std::move(stream), context.stream_type(), input.wants_gradient);
  const TensorId out = write_layer(writer, context, kind, x);
  Block block = std::move(writer).take(out, true);
  if (context.program.mark_selected != nullptr)
    context.program.mark_selected(block, context.policy);
  if (!context.compiles_layers()) return block;
  return compiled(std::move(block), {context.program.region_checkpoint, input.in_region},
                  region_of(context.policy));
}

}  // namespace memest
