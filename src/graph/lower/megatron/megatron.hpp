// Megatron-core 0.16.1: GPTModel with its local layers (get_gpt_layer_local_spec), without
// Transformer Engine and Apex, or with Transformer Engine's (2.11). Streams are [s, b, h]; each
// autograd function of Megatron's own is one op with what its forward saves and its backward makes.
// Under tensor parallelism sizes are one rank's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/lower/ops/block_builder.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/graph/lower.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// The inputs that the parts of the lowering read.
struct MegatronContext {
  const DecoderSpec& decoder;
  SoftmaxAttention attention;     ///< of latent attention its heads
  DenseFeedForward feed_forward;  ///< of dense layers; of no size where there are none
  const LoweringPolicy& policy;
  Expr t{1};              ///< tensor-parallel ranks
  bool sequence = false;  ///< norms and residual sums on s/t tokens
  Expr b = Symbol::micro_batch;
  Expr s = Symbol::seq_len;
  Expr h = Symbol::hidden_size;
  Expr d = Symbol::head_dim;
  Expr a = Symbol::heads;       ///< of one rank
  Expr k = Symbol::kv_heads;    ///< of one rank
  Expr f = Symbol::ffn_size;    ///< of one rank
  Expr v = Symbol::vocab_size;  ///< of one rank
  Expr c{1};                    ///< context-parallel ranks, of one of which s is
  std::optional<MixtureOfExperts> experts = {};
  std::optional<LatentAttention> latent = {};
  std::optional<TeLinears> quantized = {};  ///< of the layer that is written
  std::int64_t window = 0;                  ///< the same: tokens back, 0 where all are seen
  bool norm_apart = false;                  ///< before linear_fc1: a module, of shared experts
  const Adapter* adapter = nullptr;         ///< that is trained, in the weights' type; null: none

  /// GPTModel.forward names what was embedded until it returns: seen where no layer keeps it so
  /// long.
  [[nodiscard]] bool names_embedded() const { return adapter != nullptr || policy.offloads_layers; }

  [[nodiscard]] Precision precision() const {
    Precision types{policy.weights, policy.weights, false, {}, policy.gradients};
    if (adapter != nullptr) types.adapter = policy.weights;
    return types;
  }
  /// Layers of Transformer Engine.
  [[nodiscard]] bool te() const { return policy.implementation.layers == LayerSpec::te; }
  /// Megatron-LM's of 2021 and 2022.
  [[nodiscard]] bool legacy() const { return policy.implementation.layers == LayerSpec::legacy; }
  /// Whether a layer's products stay in bf16 where those of others do not.
  [[nodiscard]] bool in_bf16(std::int64_t layer) const {
    return policy.te_linears && !policy.te_linears->quantizes(layer, decoder.layers());
  }
  [[nodiscard]] double dropout(double probability) const {
    return policy.dropout ? probability : 0.0;
  }
  [[nodiscard]] Dimensions dimensions() const;
  /// [s, b, width], and the same of the residual stream.
  [[nodiscard]] Shape tokens(const Expr& width) const { return {s, b, width}; }
  [[nodiscard]] Shape stream() const { return stream(h); }
  [[nodiscard]] Shape stream(const Expr& width) const { return {sequence ? s / t : s, b, width}; }
  /// Tokens that one rank routes: sequence parallelism has a part of them.
  [[nodiscard]] Expr routed_tokens() const { return b * (sequence ? s / t : s); }
  /// Whether an expert is cut over the tensor-parallel ranks as all else is, and over how many.
  [[nodiscard]] bool cuts_experts() const { return policy.tensor > 1 && !policy.whole_experts; }
  [[nodiscard]] Expr expert_cut() const { return cuts_experts() ? t : Expr(1); }
  /// Whether a word of `recompute` has this part of the layers run again.
  [[nodiscard]] bool recomputes(bool SelectiveRecompute::* part) const {
    return policy.recomputed_parts && *policy.recomputed_parts.*part;
  }
  /// Channels of a head that rotate.
  [[nodiscard]] Expr rotary_channels() const { return latent ? Expr(latent->qk_rope_head_dim) : d; }
  /// Channels of a head's values.
  [[nodiscard]] Expr of_values() const { return latent ? Expr(latent->v_head_dim) : d; }
  [[nodiscard]] bool rotates() const {
    return std::holds_alternative<RotaryPosition>(decoder.position);
  }
};

/// A product of tensor_parallel.ColumnParallelLinear or RowParallelLinear.
struct ParallelProduct {
  std::string_view name;
  Expr in;
  Expr out;
  bool bias = false;     ///< added inside; otherwise it is the caller's to add
  bool gathers = false;  ///< reads the whole sequence from shards
  bool tied = false;
  bool by_rows = false;        ///< RowParallelLinear: answers partial sums
  bool duplicated = false;     ///< every rank has all of the matrix, and multiplies its own stream
  Shape rows = {};             ///< of its input, where those are not the tokens
  bool input_is_kept = false;  ///< in 16 bits, by what made it or reads it too
  std::optional<TensorId> weight = {};  ///< that is there, since another product reads it
  /// This rank's part of what it multiplies, which LayerNormLinear answers too
  /// (return_layernorm_output): an adapter takes it.
  std::optional<TensorId> returned = {};
};
/// A product that every rank has rows of, and one whose partial sums are reduced: the layers' own.
TensorId column_product(BlockBuilder& block, const MegatronContext& context,
                        const ParallelProduct& product, TensorId x);
TensorId row_product(BlockBuilder& block, const MegatronContext& context, ParallelProduct product,
                     TensorId x);
/// Messages of a product's ranks. With shards of the sequence the input is all-gathered, and again
/// in the backward beside the product that makes its gradient, which is reduce-scattered beside the
/// weight's. Else the gradient's parts are summed there.
void add_forward_messages(Op& op, const MegatronContext& context, const ParallelProduct& product);
void add_backward_messages(Op& op, const MegatronContext& context, const ParallelProduct& product);
/// The matrix of a product.
TensorId weight_of(BlockBuilder& block, const ParallelProduct& product);
/// LinearWithGradAccumulationAndAsyncCommunication.
TensorId parallel_product(BlockBuilder& block, const MegatronContext& context,
                          const ParallelProduct& product, TensorId x);
/// Reduces a row-parallel product's partial sums, `x` the last op's result: they are summed in
/// place, or in shards of the sequence.
TensorId reduced(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                 TensorId x);

/// torch's layer or RMS norm over the stream.
TensorId megatron_norm(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                       TensorId x);

/// The ops from number `first` on make `results`, which CheckpointWithoutOutput throws away by a
/// word of `recompute`, and makes again.
void mark_remade(BlockBuilder& block, std::size_t first, Remade kind,
                 std::initializer_list<TensorId> results);

/// SelfAttention up to its output projection, and MLP up to its own; a bias is left to the caller.
TensorId megatron_attention(BlockBuilder& block, const MegatronContext& context, TensorId x);
TensorId megatron_feed_forward(BlockBuilder& block, const MegatronContext& context, TensorId x);
TensorId attention_output(BlockBuilder& block, const MegatronContext& context, const Expr& width,
                          TensorId mixed);
/// MLASelfAttention, of layers of Transformer Engine.
TensorId megatron_latent_attention(BlockBuilder& block, const MegatronContext& context, TensorId x);
/// apply_rotary_pos_emb, not fused.
TensorId local_rotated(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                       TensorId x);
/// WeightedSwiGLUFunction: swiglu(y)·weights, a weight a row.
TensorId weighted_swiglu(BlockBuilder& block, const Expr& width, TensorId y, TensorId weights);
/// MoELayer: the router, the dispatcher and this rank's experts.
TensorId megatron_experts(BlockBuilder& block, const MegatronContext& context, TensorId x);
struct PermutedTokens {
  TensorId tokens = 0;
  TensorId probabilities = 0;
  TensorId indices = 0;
};
/// moe_permute_with_probs into so many rows, and TEGroupedMLP.
PermutedTokens te_permute(BlockBuilder& block, const Expr& rows, TensorId x,
                          TensorId probabilities);
TensorId te_experts(BlockBuilder& block, const MegatronContext& context, TensorId tokens,
                    TensorId probabilities);
/// Tokens that an expert takes, of all expert-parallel ranks that send it some.
Expr rows_of_expert(const MegatronContext& context);

/// Transformer Engine's Linear over column- and row-parallel weights, FusedRoPEFunc,
/// DotProductAttention, and Megatron's fused activations compiled by torch.compile.
TensorId te_column_product(BlockBuilder& block, const MegatronContext& context,
                           const ParallelProduct& product, TensorId x);
TensorId te_row_product(BlockBuilder& block, const MegatronContext& context,
                        const ParallelProduct& product, TensorId x);
/// The last that a product's backward makes, where its release keeps none.
void add_unread_gradient(BlockBuilder& block, const MegatronContext& context, Op& op);
TensorId te_rotated(BlockBuilder& block, const MegatronContext& context, std::string_view name,
                    TensorId x);
TensorId te_core_attention(BlockBuilder& block, const MegatronContext& context,
                           const std::vector<TensorId>& heads);
/// As above, over a sequence that lies on several ranks.
TensorId te_context_attention(BlockBuilder& block, const MegatronContext& context,
                              const std::vector<TensorId>& heads);
TensorId compiled_activation(BlockBuilder& block, const MegatronContext& context, TensorId y);

/// Whether it is the gelu that Megatron fuses with a bias. BLOOM's is that of its legacy layers.
bool is_fused_gelu(ActivationFunction function, const LoweringPolicy& policy);
/// Why legacy layers have no graph of the model, or nothing.
std::optional<Unavailable> legacy_refusal(const DecoderSpec& decoder, const LoweringPolicy& policy);
/// Megatron-LM's causal FusedScaleMaskSoftmax: its kernel, or what stands for it.
TensorId legacy_softmax(BlockBuilder& block, const MegatronContext& context, TensorId scores);
/// residual + dropout(x + bias) as one kernel each way.
struct LegacySum {
  std::string_view name;
  TensorId x = 0;
  TensorId bias = 0;
  TensorId residual = 0;
};
TensorId fused_bias_dropout_add(BlockBuilder& block, const LegacySum& sum);

/// The angles of the positions, which rotations read.
inline constexpr std::string_view kRotaryTable = "rotary table";
/// The table of angles, made once and kept (RotaryEmbedding.forward is cached).
void rotary_table(BlockBuilder& block, const MegatronContext& context);

/// The embedded tokens, which GPTModel.forward names until it returns.
inline constexpr std::string_view kEmbedded = "embedded tokens";

struct MegatronLayer {
  bool makes_table = false;  ///< where no embedding of this stage does
  bool has_experts = false;
  bool in_bf16 = false;        ///< where products of others are in 8 or 4 bits
  std::int64_t window = 0;     ///< see MegatronContext
  bool wants_gradient = true;  ///< its input, before which something is trained
  bool ends_model = false;  ///< GPTModel.forward returns behind it, which names what was embedded

  friend bool operator==(const MegatronLayer&, const MegatronLayer&) = default;
};
Block megatron_layer(const MegatronContext& model, const MegatronLayer& layer);
/// TransformerLayer.forward, of the layer that `context` is set to.
TensorId transformer_layer(BlockBuilder& block, const MegatronContext& context,
                           const MegatronLayer& layer, TensorId x);

/// The graph of a rank, or why there is none.
std::variant<Graph, Unavailable> lower_gpt_model(const ModelSpec& model,
                                                 const LoweringPolicy& policy);

/// Where ids are outside of this rank's shard of the vocabulary, and ids counted within it.
struct OwnIds {
  TensorId mask = 0;
  TensorId ids = 0;
};
/// (x < start) | (x >= end), then x.clone() - start: Megatron's VocabParallelEmbedding.forward and
/// VocabParallelCrossEntropy.calculate_predicted_logits alike, and nanotron's.
OwnIds own_ids(BlockBuilder& block, std::string_view op, TensorId ids);

/// Binds the sizes of a rank's model.
void bind_sizes(const MegatronContext& context, Bindings& sizes);

/// Why the model has no graph, or nothing.
std::optional<Unavailable> megatron_refusal(const DecoderSpec& decoder,
                                            const LoweringPolicy& policy);
/// Why heads and feed-forwards cannot be cut over the tensor-parallel ranks, or the sequence cannot
/// where it is; nothing where they can.
std::optional<Unavailable> uneven_layers(const MegatronContext& context);
/// Why the model cannot be cut over the tensor-parallel ranks, or nothing.
std::optional<Unavailable> uneven_cut(const MegatronContext& context);

}  // namespace memest
