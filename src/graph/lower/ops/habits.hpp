// Habits in which transformers' modeling files differ though the mathematics is the same: how a
// norm is written, which tensors a rotation makes, where a mask is passed. They decide what stays
// in memory. Source: transformers 5.17, models/MODEL_TYPE/modeling_MODEL_TYPE.py.
#pragma once

#include <string_view>

#include "memest/graph/lower.hpp"

namespace memest {

/// How a normalization is computed, and so what it keeps.
enum class NormWriting {
  textbook,        ///< keeps its input only
  fused,           ///< one kernel: input and statistics
  fp32,            ///< one kernel on an fp32 copy of the input (OLMo 1)
  python_layer,    ///< layer norm op by op in fp32 (Cohere)
  cast_then_gain,  ///< RMS norm in fp32, cast, then times the gain (LLaMA)
  gain_then_cast,  ///< RMS norm and gain in fp32, then cast (OLMo 2)
  one_plus_gain,   ///< the same with 1 + gain (Gemma)
  wide_gain,       ///< as gain_then_cast of x·x, with an fp32 copy of the gain (litgpt)
  called_in_fp32,  ///< rms_norm of an fp32 copy, with a gain of another type (torchtune)
  one_plus_fused   ///< one kernel with 1 + gain, under autocast in the compute type (Nemotron)
};

/// How a projection adds its bias, which decides what autocast casts first.
enum class BiasCall {
  last_argument,   ///< linear(x, weight, bias)
  first_argument,  ///< addmm(bias, x, weight) (Conv1D)
  own_op           ///< x·Wᵀ + b as two operations, the sum in the wider type
};

/// Which of a layer's results have names of their own, and so live until it returns or names
/// something else so.
enum class LayerLocals {
  replaced,  ///< each result takes the name of what it was made from (LLaMA)
  sums,      ///< branches' results and the first sum, which takes the first norm's name (torchtune)
  branches,  ///< both branches' results are named (GPT-NeoX)
  sublayers,   ///< and a norm's result until the residual sum replaces it (GPT-2)
  norms,       ///< branches', and a norm's until the next takes its name (BLOOM)
  first_norm,  ///< branches' and the first norm's (StableLM)
  all          ///< norms' results too (Falcon)
};

/// The order in which queries, keys and values are projected, seen by heads, and normalized.
enum class ProjectionOrder {
  view_by_view,  ///< each is seen by heads at once, norms follow (LLaMA, Gemma 3)
  norm_by_norm,  ///< each is seen and normalized at once (Qwen 3)
  views_last     ///< all are projected first (OLMo)
};

/// How queries, keys and values are taken out of a fused projection.
enum class QkvSplit {
  columns,                ///< cut, then seen by heads, queries last (GPT-2)
  columns_in_order,       ///< the same, queries first (MPT)
  columns_or_transposed,  ///< the first where heads share keys and values, else the second
                          ///< (BigCode)
  transposed,             ///< seen by heads and turned, then cut (GPT-NeoX)
  slices,                 ///< sliced out one by one, then seen by heads (Phi-3)
  unbound,                ///< seen as three of so many heads, and taken apart (Qwen2-VL's tower)
  selected                ///< seen by heads, then selected one by one; shared ones are indexed out:
                          ///< copies (BLOOM, Falcon)
};

/// How eager scores become what softmax reads.
enum class ScoreWriting {
  renamed,    ///< product · scale, softcap, + mask: each takes the name of the last (LLaMA)
  onto_bias,  ///< one product onto ALiBi's rows, + mask: both named (BLOOM)
  filled,     ///< product · scale + ALiBi, filled by a boolean mask, which is kept (MPT)
  in_place,   ///< scaled in place, + mask unnamed; with ALiBi in fp32 (Falcon)
  with_sinks  ///< a logit a head joined, and the largest taken away (GPT-OSS)
};

/// The table of ALiBi's biases.
enum class AlibiWriting {
  none,
  of_fp32_mask,   ///< by tokens of a mask of ones, in the model's type (BLOOM)
  of_int64_mask,  ///< the same of integers in bf16, then masked for every query (Falcon)
  of_positions    ///< for every position the config knows, in fp32 (MPT)
};

/// Where residual sums are made inside the functions of the branches.
enum class SumsInside { nowhere, feed_forward, everywhere };

/// The type in which a rotation is computed.
enum class RotationType {
  given,           ///< as queries, keys and tables are
  whole_in_fp32,   ///< queries and keys are cast first (Cohere)
  factors_in_fp32  ///< each factor is cast where it is multiplied (ERNIE)
};

/// How the weights of a token's experts are written, where layers are mixtures of experts.
enum class RouterWriting {
  unknown,     ///< not read yet
  in_fp32,     ///< logits are widened before the softmax, and the weights stay so (Mixtral)
  in_type,     ///< the softmax widens, and the weights are cast to the logits' type (Qwen)
  of_groups,   ///< a product in fp32, softmax, the best of the best groups, scaled (DeepSeek V2)
  of_sigmoid,  ///< the same of sigmoids, chosen with a bias that does not count (DeepSeek V3)
  of_choice    ///< softmax of the chosen logits, in their type (GPT-OSS)
};

/// How the rotated part of latent attention is computed.
enum class LatentWriting {
  unknown,         ///< not read yet
  complex_pairs,   ///< neighbours as complex numbers in fp32 (DeepSeek V2)
  pairs_in_halves  ///< neighbours parted, each half on its own, and joined (DeepSeek V3)
};

struct Habits {
  std::string_view model_type = {};
  NormWriting rms_norm = NormWriting::cast_then_gain;
  NormWriting layer_norm = NormWriting::fused;
  bool rotates_by_cat = false;   ///< rotated and other channels are joined even where all rotate
  bool joins_at_once = false;    ///< the queries' channels are joined before the keys rotate
  bool joined_replaces = false;  ///< the joined channels, or those cast back, take the turned ones'
                                 ///< name
  bool tables_in_fp32 = false;   ///< cos and sin stay in fp32
  std::string_view cosines = "cos";  ///< the names by which layers know the tables
  std::string_view sines = "sin";
  bool rotates_in_grids =
      false;  ///< positions are three, an image's its rows and columns (Qwen2-VL)
  bool tables_by_layer = false;  ///< every layer makes cos and sin of its own from the shared ones
  bool softmax_in_type = false;  ///< eager softmax in the scores' type, not in fp32
  bool eager_only = false;       ///< no fused attention
  bool masks_always = false;     ///< passes an attention mask even where causality would do
  ScoreWriting scores = ScoreWriting::renamed;
  AlibiWriting alibi = AlibiWriting::none;
  BiasCall bias_call = BiasCall::last_argument;
  bool norms_between_branches = false;  ///< of two parallel norms the second runs after attention
  QkvSplit qkv_split = QkvSplit::columns;
  bool names_qkv = false;               ///< the fused projection keeps a name of its own
  bool rotates_unused = false;          ///< computes rotary tables beside ALiBi
  bool masks_before_positions = false;  ///< the mask is made before the learned positions' rows
  bool positions_from_mask = false;     ///< position ids of [b, s], counted along a mask of ones
  bool passes_positions = true;         ///< makes position ids, and layers are called with them
  bool hides_positions = false;         ///< though made, position ids do not reach attention
  bool feeds_inline = false;     ///< the feed-forward is part of the layer's function, on [b·s, h]
  bool scales_queries = false;   ///< queries are scaled before attention
  bool scale_is_tensor = false;  ///< the embedding's factor is a tensor, and kept
  LayerLocals locals = LayerLocals::replaced;
  bool drops_in_sum = false;           ///< a branch is dropped where it is added, and still named
  bool drops_inside = false;           ///< residual dropout belongs to the branches' own functions
  bool drops_embedding = true;         ///< applies the config's embedding dropout
  bool renames_embedding = false;      ///< the dropped embeddings take the embeddings' name
  bool drops_attention_output = true;  ///< applies residual dropout after attention too
  SumsInside sums_inside = SumsInside::nowhere;
  bool drops_attention_as_scores = false;  ///< a sequential layer's, with the scores' probability
  bool joins_in_place = false;          ///< the attention's output is added into the feed-forward's
  bool drops_joined_branches = false;   ///< one dropout for both branches of a parallel block
  bool drops_attention = true;          ///< applies attention dropout without ALiBi too
  bool sum_replaces_attention = false;  ///< the residual sum takes the attention output's name
  bool joins_residual_first = false;    ///< (x + attention) + feed-forward of parallel branches
  bool joins_in_turn = false;           ///< the same, the first sum before the feed-forward
  bool activates_last = false;          ///< gate and up are there, by name, before the activation
  bool names_channels = false;          ///< takes the channels apart in attention's own function
  ProjectionOrder projections = ProjectionOrder::view_by_view;
  RotationType rotation = RotationType::given;
  bool masks_by_type = false;    ///< makes the full mask even where every layer's slides
  bool makes_all_masks = false;  ///< the sliding one too where no layer's does
  RouterWriting router = RouterWriting::unknown;
  LatentWriting latents = LatentWriting::unknown;
  bool rotates_halves = false;     ///< tables of half a head, each half turned on its own
  bool stream_transposed = false;  ///< the residual stream lies by channels: norms copy it first
  bool finds_packed = true;        ///< looks for packed sequences in the position ids
  bool clamps_experts = false;     ///< (up + 1)·gate·sigmoid(α·gate), both clamped, interleaved
};

/// The habits of `model_type` in transformers, LLaMA's for an empty one; null where they are not
/// known.
const Habits* habits_of(std::string_view model_type);

/// Habits of a model that another program writes out as its paper does: none of a library's, a norm
/// is one kernel, a branch drops its own result. The order of projections stays the family's.
Habits written_out(const Habits& family);
/// Habits of the papers' formulas.
Habits as_formulas(const Habits& family);

}  // namespace memest
