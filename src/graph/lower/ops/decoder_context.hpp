// Inputs of every part of a decoder's lowering: model, policy, and the sizes in letters.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/lower/ops/block_builder.hpp"
#include "graph/lower/ops/decoder_program.hpp"
#include "graph/lower/ops/habits.hpp"
#include "graph/lower/ops/operations.hpp"
#include "graph/parameters/parameter_names.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// The dimensions of a decoder in the letters of symbol.hpp. Under tensor parallelism the sizes of
/// one rank: a/t heads, f/t channels.
struct Dimensions {
  Expr b = Symbol::micro_batch;
  Expr s = Symbol::seq_len;
  Expr h = Symbol::hidden_size;
  Expr a = Symbol::heads;
  Expr k = Symbol::kv_heads;
  Expr d = Symbol::head_dim;
  Expr value = Symbol::head_dim;  ///< channels of a value's head
  Expr v = Symbol::vocab_size;
  Expr embedding = Symbol::hidden_size;  ///< width of the embedding table
  Expr stream_s = Symbol::seq_len;       ///< tokens of the residual stream: s, or s/t
  Expr keys = Symbol::seq_len;           ///< tokens whose keys and values attention reads: s, or S

  Expr documents = {};  ///< of joined sequences, which are one of b·s tokens; zero: they lie apart

  bool packed = false;  ///< all sequences are one, of b·s rows

  [[nodiscard]] Shape rows() const { return packed ? Shape{b * s} : Shape{b, s}; }
  [[nodiscard]] Shape stream() const { return packed ? Shape{b * s} : Shape{b, stream_s}; }
};

/// Products and vocabulary are cut over tensor-parallel ranks by DTensor.
bool shards_by_dtensor(const LoweringPolicy& policy);

/// A packed sequence, of which attention sees one part after the other.
struct AttentionParts {
  std::string_view bounds;  ///< the name by which layers know where the parts begin
  std::vector<std::int64_t> lengths;
};

struct DecoderContext {
  const DecoderSpec& decoder;
  const LoweringPolicy& policy;
  const DecoderProgram& program;
  const Habits habits;
  Dimensions dims;
  const DecoderNames& names;
  const Adapter* adapter = nullptr;             ///< what is trained instead of the model
  const LowRank* low_rank = nullptr;            ///< the layers' linear modules that are two each
  const QuantizedWeights* quantized = nullptr;  ///< the linear modules whose weights are codes
  SoftmaxAttention attention = heads_of(decoder.attention);  ///< as its kernels see it
  bool trains_all = false;             ///< what is frozen beside an adapter gets its gradients too
  const VisionPart* vision = nullptr;  ///< whose images become tokens of the decoder
  const AttentionParts* parts = nullptr;  ///< null: attention sees every sequence whole

  /// Null where queries, keys and values are projected directly.
  [[nodiscard]] const LatentAttention* latent() const {
    return std::get_if<LatentAttention>(&decoder.attention);
  }
  [[nodiscard]] Precision precision() const {
    return {policy.weights,   policy.compute, policy.autocast, adapted(),
            policy.gradients, policy.frozen,  policy.in_pieces};
  }
  /// The type of an adapter's weights as a pass sees them, where those alone are trained: that of
  /// all weights where FSDP gathers them in another than they are stored in.
  [[nodiscard]] std::optional<DType> adapted() const {
    if (adapter == nullptr || trains_all) return std::nullopt;
    return policy.stored ? policy.weights : adapter->dtype;
  }
  /// Tokens of a trained prompt, which stand before a sequence's own.
  [[nodiscard]] std::int64_t virtual_tokens() const {
    return adapter == nullptr ? 0 : adapter->virtual_tokens;
  }
  /// Whether the embeddings are a leaf that a gradient ends at.
  [[nodiscard]] bool embeddings_want_gradient() const {
    const bool frozen = adapter != nullptr || (vision != nullptr && vision->frozen.decoder);
    return frozen && policy.embeddings_want_gradient;
  }
  /// torchtitan's Qwen3 reads cosines and sines from a table of its model's.
  [[nodiscard]] bool has_rope_cache() const {
    return program.rotations == Rotations::complex && attention.qk_norm != QkNorm::none;
  }
  /// Attention takes masks by which the tokens of an image see one another (Gemma 3).
  [[nodiscard]] bool sees_images_whole() const {
    return vision != nullptr && vision->projector.kind == ProjectorKind::pooled;
  }
  /// The type of the stream between the layers: a packed one begins with what a convolution makes.
  [[nodiscard]] DType stream_type() const {
    return dims.packed && policy.autocast ? policy.compute : policy.weights;
  }
  [[nodiscard]] bool shards_tensors() const { return shards_by_dtensor(policy); }
  /// Rows of a product whose partial sums are the ranks'; scattered by an operation of its own or,
  /// in a textbook's, at once.
  [[nodiscard]] Shape summed_rows() const { return shards_tensors() ? dims.rows() : dims.stream(); }
  /// Layers are compiled, one by one or with the model.
  [[nodiscard]] bool compiles_layers() const {
    return policy.implementation.compile != CompileScope::off;
  }
  /// The model with its loss is one region.
  [[nodiscard]] bool compiles_whole() const {
    return policy.implementation.compile == CompileScope::whole;
  }
  [[nodiscard]] bool compiles_loss() const {
    return compiles_whole() || (compiles_layers() && program.compiles_loss &&
                                row_of(policy.implementation.torchtitan).compiles_loss);
  }
  [[nodiscard]] bool repeats_by_tokens() const {
    return program.head_repeats == HeadRepeats::by_tokens && attention.kv_heads < attention.heads;
  }
  [[nodiscard]] bool repeats_by_heads() const {
    return program.head_repeats == HeadRepeats::by_heads && attention.kv_heads < attention.heads;
  }
  /// The final norm, the output head and the loss are one block.
  [[nodiscard]] bool joins_head_and_loss() const {
    return program.head_and_loss != nullptr && policy.end == ForwardEnd::cross_entropy;
  }
  [[nodiscard]] const LigerKernels& liger() const { return policy.implementation.liger; }
  /// The forward fills a key-value cache.
  [[nodiscard]] bool caches() const {
    return program.has.key_value_cache && policy.key_value_cache;
  }
  /// The sequences are one, of documents: position ids come with the batch.
  [[nodiscard]] bool joins_sequences() const { return policy.joined.has_value(); }
  /// The forward is generate()'s, which counts positions and passes a mask of tokens itself.
  [[nodiscard]] bool generates() const { return policy.past.has_value(); }
  /// It is of one token a sequence behind those in the cache.
  [[nodiscard]] bool decodes() const { return policy.past.value_or(0) > 0; }
  /// Tokens that the sequences have with the pass.
  [[nodiscard]] std::int64_t tokens() const { return policy.past.value_or(0) + policy.seq_len; }
  /// Rows of position ids and of tables made from them: one for all sequences, or each its own.
  [[nodiscard]] Expr position_rows() const {
    return generates() || habits.rotates_in_grids ? dims.b : Expr(1);
  }
  [[nodiscard]] BiasCall bias_call() const { return habits.bias_call; }
  /// `probability`, or 0 where the job switches dropout off.
  [[nodiscard]] double dropout(double probability) const {
    return policy.dropout ? probability : 0.0;
  }
  /// Dropout of a branch's result as the last act of the function that computes it.
  [[nodiscard]] double dropout_inside() const {
    return habits.drops_inside ? dropout(decoder.dropout.residual) : 0.0;
  }
  /// The feed-forward size of a layer kind: f, or the number where kinds differ.
  [[nodiscard]] Expr feed_forward_size(std::int64_t size) const;
};

/// The context of layers of `kind`: what is left of their cache where they see a window, and
/// whether all of them is trained.
DecoderContext context_of_kind(const DecoderContext& context, const LayerKind& kind);

/// The numbers behind the letters.
void bind_sizes(const DecoderContext& context, Bindings& sizes);

/// Fails with a sentence for what has no graph yet.
[[nodiscard]] std::variant<DecoderContext, Unavailable> context_of(const ModelSpec& model,
                                                                   const LoweringPolicy& policy,
                                                                   const DecoderProgram& program);

/// A matrix product with a parameter, and beside it the adapter's two where it is a target.
TensorId projection(BlockBuilder& block, const DecoderContext& context, const Projection2d& shape,
                    const Rows& rows);

/// As above, without an adapter.
TensorId base_projection(BlockBuilder& block, const DecoderContext& context,
                         const Projection2d& shape, const Rows& rows);

/// Whether a layer of the model has a linear module that `name` names, which may be factorised.
[[nodiscard]] bool has_layer_module(const DecoderContext& context, std::string_view name);

/// Whether the model has a projection that `target` of an adapter names.
[[nodiscard]] bool has_module(const DecoderContext& context, std::string_view target);

// The parts of a layer; each appends its ops to `block` and answers its output.

/// The name of the looked-up tokens, where they wait for images' ones.
inline constexpr std::string_view kTextEmbeddings = "text embeddings";

/// The table of cosines beside sines that torchtitan's Qwen3 keeps, [s·c, 2d] in fp32.
inline constexpr std::string_view kRopeCache = "rope_cache";
TensorId rope_cache(BlockBuilder& block, const DecoderContext& context);

/// A normalization of the last dimension of `x`; the gain has shape `gain`.
struct NormPart {
  std::string_view name;
  Norm kind;
  Shape gain;
  bool transposed = false;  ///< x lies by tokens and is seen by heads: a kernel copies it first
};
TensorId norm(BlockBuilder& block, const DecoderContext& context, const NormPart& part, TensorId x);

/// A branch's input, and the residual stream where its own function adds that.
struct Branch {
  TensorId x = 0;
  std::optional<TensorId> residual = {};
  Shape rows = {};  ///< of x where it is not [b, s, h]
};
TensorId attention(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                   const Branch& branch);
TensorId latent_attention(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                          TensorId x);
TensorId feed_forward(BlockBuilder& block, const DecoderContext& context,
                      const DenseFeedForward& part, const Branch& branch);
/// transformers' mixture of experts over rows of `x`.
TensorId mixture(BlockBuilder& block, const DecoderContext& context, const MixtureOfExperts& part,
                 TensorId x);
inline constexpr std::string_view kRouterProduct = "gate";
TensorId torchtitan_mixture(BlockBuilder& block, const DecoderContext& context,
                            const MixtureOfExperts& part, TensorId x);
/// The residual stream plus a branch's result, dropped before.
enum class BranchKind : std::uint8_t { attention, feed_forward };
TensorId dropped_sum(BlockBuilder& block, const DecoderContext& context, BranchKind kind,
                     const Branch& branch);

/// A whole layer of `kind` on the residual stream `x`.
TensorId write_layer(BlockBuilder& block, const DecoderContext& context, const LayerKind& kind,
                     TensorId x);
/// Position ids, masks and tables, which a decoder whose positions rotate makes before its layers.
void write_positions(BlockBuilder& block, const DecoderContext& context);

// The blocks of a decoder.

/// Where images become tokens, these look the tokens up alone.
Block embedding_block(const DecoderContext& context);
/// Before the first adapter a layer's input wants no gradient.
struct StreamInput {
  bool wants_gradient = true;
  RegionInput in_region = RegionInput::argument;
};
Block layer_block(const DecoderContext& context, const LayerKind& kind, StreamInput input);
Block head_block(const DecoderContext& context, bool input_wants_gradient);
Block loss_block(const DecoderContext& context);

}  // namespace memest
