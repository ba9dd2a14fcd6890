// A program that writes decoders: the names, arguments and kernels of its model's code beside the
// mathematics, whatever the family (a family's own are in habits.hpp). Each program's row stands in
// its file of lower/programs.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/lower/compile/compiled_region.hpp"
#include "graph/lower/ops/habits.hpp"
#include "graph/lower/ops/operations.hpp"
#include "memest/spec/gpu/gpu_target.hpp"

namespace memest {

struct AttentionCall;
struct DecoderContext;
struct MixtureOfExperts;

/// Parts beside the training of dense decoders, which transformers alone has.
struct LibraryParts {
  bool latent_attention = false;
  bool experts = false;
  bool inference = false;
  bool key_value_cache = false;
  bool sum_of_logits = false;
  bool adapters = false;
  bool low_rank = false;
  bool quantized = false;
  bool quantized_head = false;
  bool flash_attn = false;  ///< calls the package of that name where it is asked for
};

/// A layer's arguments beside the hidden states. A checkpoint holds them whether they are read or
/// not.
enum class LayerArguments : std::uint8_t {
  none,
  rope_cache,  ///< where the model has one (torchtitan's Qwen3)
  of_family    ///< position ids and tables, by the family's habits
};

/// The point at which the locals of the model's outermost forward end.
enum class LocalsEnd : std::uint8_t { unnamed, before_head, with_loss };

enum class PositionIds : std::uint8_t {
  counted,        ///< torch.arange(s), after the tokens are looked up
  counted_first,  ///< before, and named (nanoGPT's `pos`)
  of_family
};

enum class Rotations : std::uint8_t {
  in_formula,  ///< in place, from no table
  tables,      ///< cosines and sines that the model's forward makes
  complex,     ///< in fp32, as complex numbers or by the model's rope cache (torchtitan)
  in_turn,     ///< by the model's table, queries before keys are projected (torchtune)
  joined       ///< by the model's tables, joined with what does not rotate (litgpt)
};

/// How keys and values come to stand beside every query head before the kernel is called.
enum class HeadRepeats : std::uint8_t {
  by_kernel,  ///< the kernel's affair, or the library's around it
  by_tokens,  ///< written out as [b, s, a, d] (torchtitan before 0.2)
  by_heads    ///< written out as [b, a, s, d] (torchtune, litgpt)
};

/// How a layer's LoRA is written.
enum class AdapterWriting : std::uint8_t {
  of_peft,
  of_modules,  ///< casts nothing; what layer and adapter answer have names (torchtune)
  by_hand      ///< the same, of products with views of the two matrices (litgpt)
};

/// The targets of the loss.
enum class Targets : std::uint8_t {
  token_ids,      ///< the batch itself
  second_tensor,  ///< the loader's second tensor
  shifted_copy    ///< labels shifted in a padded copy
};

struct DecoderProgram {
  LibraryParts has = {};
  /// The family's habits as this program writes them.
  Habits (*habits)(const Habits& family) = written_out;
  /// Why a decoder has no graph, or nothing.
  std::optional<Unavailable> (*refusal)(const DecoderSpec& decoder,
                                        const LoweringPolicy& policy) = nullptr;
  std::optional<Unavailable> (*layer_refusal)(const DecoderContext& context,
                                              const LayerKind& kind) = nullptr;

  // The model's forward.
  bool names_results = false;  ///< embeddings and the last hidden state live until their names end
  LocalsEnd locals_end = LocalsEnd::unnamed;
  PositionIds position_ids = PositionIds::counted;
  bool passes_masks = false;  ///< layers are called with masks, tensors of their own
  LayerArguments layer_arguments = LayerArguments::none;

  /// The rows of the table that the tokens name, where it writes them itself; null: one look-up.
  TensorId (*token_rows)(BlockBuilder& block, const DecoderContext& context,
                         TensorId tokens) = nullptr;

  // A layer's.
  Rotations rotations = Rotations::tables;
  /// Attention and rotation are functions of the library: scores are scaled by an operation of
  /// their own, rotated and other channels are joined, the weights are answered.
  bool library_functions = false;
  HeadRepeats head_repeats = HeadRepeats::by_kernel;
  bool cuts_rotations = false;   ///< context ranks have their part of the model's table
  bool names_attention = false;  ///< attention's result, until dropout has run
  AdapterWriting adapter = AdapterWriting::of_peft;
  /// Codes stand for weights in fp16, which a backward casts (lightning's BitsandbytesPrecision).
  bool codes_of_fp16 = false;
  /// LoRA of queries, keys or values beside the one product of all.
  bool adapts_joint_parts = false;
  bool feed_forward_module = false;  ///< a module, which holds what it is called with
  ActivationWriting activation = ActivationWriting::one_kernel;
  /// Its mixture of experts where it writes one of its own; null: transformers'.
  TensorId (*mixture)(BlockBuilder& block, const DecoderContext& context,
                      const MixtureOfExperts& part, TensorId x) = nullptr;
  /// The kernel that `sdpa` means for heads of `head_dim` channels.
  AttentionKernel (*sdpa)(const AttentionCall& call, std::int64_t head_dim,
                          const LoweringPolicy& policy) = nullptr;
  /// Marks the operations that a selective checkpoint keeps.
  void (*mark_selected)(Block& layer, const LoweringPolicy& policy) = nullptr;

  // The loss.
  Targets targets = Targets::token_ids;
  bool widens_logits = false;  ///< whatever the loss kernel is
  /// The loss of `x`, by final norm, output head and loss where one block has them: the head may
  /// answer several tensors. Null: they are blocks of their own.
  TensorId (*head_and_loss)(BlockBuilder& block, const DecoderContext& context,
                            TensorId x) = nullptr;

  // torch.compile.
  RegionCheckpoint region_checkpoint = RegionCheckpoint::around;
  bool compiles_loss = false;
};

}  // namespace memest
