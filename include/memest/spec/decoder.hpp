// A decoder-only transformer. Its parts are types, never strings: what a family does differently is
// a value here, and the lowering reads it. Defaults are those of a LLaMA-like model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/spec/dtype.hpp"

namespace memest {

/// A tensor that is not trained: rotary tables, position ids, batch-norm statistics.
struct BufferTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::fp32;
  std::int64_t count = 1;
  /// Made while the weights' type is the default one: where that is known, it is this one's too.
  bool as_weights = false;
  bool rotary_frequencies = false;  ///< 1 / base ** (arange(0, d, 2) / d)
  bool of_adapter = false;          ///< placed with it (VeRA's two matrices)
  bool operator==(const BufferTensor&) const = default;
};

/// The function, and where frameworks write it as several operations, which (they keep different
/// tensors).
enum class ActivationFunction : std::uint8_t {
  gelu,        ///< exact, one kernel
  gelu_tanh,   ///< tanh approximation, one kernel ("gelu_pytorch_tanh")
  gelu_new,    ///< tanh approximation written op by op in Python (GPT-2's "gelu_new"); one kernel
               ///< elsewhere
  gelu_fast,   ///< "gelu_fast" of transformers, op by op
  gelu_bloom,  ///< BLOOM's own autograd function: keeps its input only
  quick_gelu,  ///< x·sigmoid(1.702x), op by op
  relu,
  relu2,  ///< relu squared
  relu6,  ///< min(max(x, 0), 6)
  silu,
  sigmoid,
  tanh
};

enum class NormKind : std::uint8_t { layernorm, rmsnorm };

/// How the gain enters.
enum class NormGain : std::uint8_t {
  weight,           ///< x̂ · w
  one_plus_weight,  ///< x̂ · (1 + w), computed in fp32 (Gemma)
  none              ///< no parameters (OLMo 1)
};

struct Norm {
  NormKind kind = NormKind::rmsnorm;
  NormGain gain = NormGain::weight;
  bool bias = false;
  bool operator==(const Norm&) const = default;
};

/// The point at which a block normalizes.
enum class BlockLayout : std::uint8_t {
  pre_norm,           ///< x + f(norm(x)), attention then feed-forward: GPT-2, LLaMA
  post_norm,          ///< norm(x + f(x)): OPT-350m
  sandwich,           ///< x + norm(f(norm(x))): Gemma 2, Gemma 3
  output_norm,        ///< x + norm(f(x)): OLMo 2
  parallel_one_norm,  ///< x + attention(n) + feed_forward(n), n = norm(x): Phi, Cohere, Falcon-7B,
                      ///< GPT-J
  parallel_two_norms  ///< x + attention(norm1(x)) + feed_forward(norm2(x)): GPT-NeoX, Falcon-40B
};

struct LearnedPosition {
  std::int64_t rows = 0;  ///< rows of the table, offsets included (OPT has 2 more than positions)
  bool operator==(const LearnedPosition&) const = default;
};
struct RotaryPosition {
  std::int64_t rotary_dim = 0;  ///< channels of a head that rotate; head_dim unless partial
  /// cos/sin tables computed a forward (Gemma 3: local and global), each from a buffer of
  /// frequencies and its original; 0 where every layer holds ready sines and cosines instead, which
  /// are then among DecoderSpec::buffers (GPT-J, CodeGen).
  std::int64_t tables = 1;
  bool operator==(const RotaryPosition&) const = default;
};
struct AlibiPosition {
  bool operator==(const AlibiPosition&) const = default;
};
struct NoPosition {
  bool operator==(const NoPosition&) const = default;
};
using Position = std::variant<RotaryPosition, LearnedPosition, AlibiPosition, NoPosition>;

/// How the query, key and value projections are stored.
enum class QkvLayout : std::uint8_t {
  separate,  ///< q_proj, k_proj, v_proj
  fused      ///< one matrix, q, k and v are views of its output (GPT-2, GPT-NeoX, Falcon, Phi-3)
};

/// Normalization of queries and keys.
enum class QkNorm : std::uint8_t {
  none,
  per_head,      ///< one gain of head_dim, shared by the heads (Qwen 3, Gemma 3)
  per_head_own,  ///< head_dim gains of each head's own (StableLM, Cohere)
  full_width     ///< over all heads together (OLMo 2)
};

/// Softmax attention: multi-head where kv_heads = heads, multi-query where 1, grouped between.
struct SoftmaxAttention {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< divides heads
  std::int64_t head_dim = 0;  ///< not always hidden_size / heads
  QkvLayout layout = QkvLayout::separate;
  bool q_bias = false;
  bool kv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;
  Norm qk_norm_kind{};
  bool sinks = false;                  ///< one learned logit a head (GPT-OSS)
  std::optional<double> softcap = {};  ///< tanh cap on scores (Gemma 2)
  bool operator==(const SoftmaxAttention&) const = default;
};

/// Multi-head latent attention (DeepSeek V2, V3).
struct LatentAttention {
  std::int64_t heads = 0;
  std::int64_t q_lora_rank = 0;  ///< 0: queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  bool bias = false;
  bool rotates_neighbours =
      true;  ///< RoPE rotates neighbouring channels as pairs; otherwise halves
  bool operator==(const LatentAttention&) const = default;
};
using Attention = std::variant<SoftmaxAttention, LatentAttention>;

/// Queries and keys as attention's kernels see them: a latent attention's have heads of their own.
SoftmaxAttention heads_of(const Attention& attention);
/// Channels of a value's head.
std::int64_t value_dim_of(const Attention& attention);

struct DenseFeedForward {
  std::int64_t size = 0;
  ActivationFunction activation = ActivationFunction::silu;
  bool gated = true;           ///< down(act(gate(x)) · up(x)); otherwise down(act(up(x)))
  bool fused_gate_up = false;  ///< gate and up are one matrix (Phi-3)
  bool bias = false;
  bool operator==(const DenseFeedForward&) const = default;
};

struct MixtureOfExperts {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_size = 0;  ///< feed-forward size of one expert
  ActivationFunction activation = ActivationFunction::silu;
  bool gated = true;
  bool expert_bias = false;      ///< GPT-OSS
  bool router_bias = false;      ///< GPT-OSS
  std::int64_t shared_size = 0;  ///< feed-forward size of all shared experts together; 0 for none
  bool shared_bias = false;      ///< biases in the shared experts (DeepSeek V2 with mlp_bias)
  bool shared_gate = false;      ///< a sigmoid gate on the shared experts (Qwen2-MoE)
  bool weights_over_sum = true;  ///< a token's weights are divided by their sum
  bool router_noise = false;     ///< noise on what the router reads in training (Mixtral)
  bool balance_loss = false;     ///< the load-balancing loss is part of the loss
  bool correction_bias_buffer = false;  ///< one fp32 routing bias an expert, a buffer (DeepSeek V3)
  /// A token's experts are chosen among those of its best groups (DeepSeek); 0: among all.
  std::int64_t groups = 0;
  std::int64_t groups_kept = 0;
  double capacity_factor = 0;  ///< 0: dropless
  double imbalance = 1.0;      ///< tokens of the fullest rank over the mean
  bool operator==(const MixtureOfExperts&) const = default;
};
using FeedForward = std::variant<DenseFeedForward, MixtureOfExperts>;

/// The traits that distinguish one kind of layer from another within a model.
struct LayerKind {
  std::optional<std::int64_t> sliding_window = {};  ///< tokens; none: full attention
  FeedForward feed_forward;
  bool rotates = true;  ///< false: this kind applies no rotary position though the model has one
                        ///< (SmolLM 3, Cohere 2)
  bool operator==(const LayerKind&) const = default;
};

/// `repeat` consecutive layers of kind `kind` (an index into DecoderSpec::kinds).
struct LayerRun {
  std::size_t kind = 0;
  std::int64_t repeat = 1;
  bool operator==(const LayerRun&) const = default;
};

struct Dropout {
  double embedding = 0;
  double attention = 0;     ///< on the attention probabilities
  double residual = 0;      ///< on the outputs of attention and feed-forward
  double feed_forward = 0;  ///< inside the feed-forward, on the activation
  bool operator==(const Dropout&) const = default;
};

/// The head on top of the last layer.
enum class DecoderHead : std::uint8_t {
  language_model,  ///< logits over the vocabulary, `tied_embeddings` or a matrix of its own
  classification,  ///< `labels` scores from a matrix of its own (sequence and token classification,
                   ///< question answering)
  none             ///< hidden states only
};

struct DecoderSpec {
  std::int64_t hidden_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t embedding_size = 0;  ///< width of the table; hidden_size unless projected (OPT-350m)
  std::vector<LayerKind> kinds;     ///< at least one
  std::vector<LayerRun> order;      ///< first layer first
  /// Layers behind the last, each of its kind, that predict one token more (multi-token
  /// prediction).
  std::int64_t mtp_layers = 0;
  Attention attention;
  Position position;
  Norm norm{};
  BlockLayout layout = BlockLayout::pre_norm;
  bool embedding_norm = false;  ///< BLOOM
  bool final_norm = true;
  bool tied_embeddings = false;
  DecoderHead head = DecoderHead::language_model;
  std::int64_t labels = 0;  ///< of a classification head
  bool head_bias = false;
  bool scaled_embedding = false;        ///< embedding output times a constant (Gemma, Granite)
  bool scaled_residual = false;         ///< branch outputs times a constant (Granite)
  bool scaled_logits = false;           ///< logits times a constant (Cohere, Granite)
  std::optional<double> logit_softcap;  ///< tanh cap on the logits (Gemma 2)
  std::int64_t max_positions = 0;       ///< 0: no limit stated
  Dropout dropout{};
  std::vector<BufferTensor>
      buffers;  ///< what the model holds beside rotary frequencies and routing biases
  /// Keys of the config that change the program and that no graph has: "clip_qkv".
  std::vector<std::string> unfollowed = {};

  /// Number of layers: the sum of the runs.
  [[nodiscard]] std::int64_t layers() const;
  /// The experts of the first layer that has any; null in a dense model.
  [[nodiscard]] const MixtureOfExperts* experts() const;
  /// The kind of layer `layer`, from 0: an index into `kinds`.
  [[nodiscard]] std::size_t kind_of(std::int64_t layer) const;
  bool operator==(const DecoderSpec&) const = default;
};

}  // namespace memest
