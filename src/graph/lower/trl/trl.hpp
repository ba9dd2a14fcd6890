// TRL's part of a training step (trl 1.16): the output head and the losses of its trainers, which
// make log-probabilities of the targets without whole logits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// Whether the program around the model takes its loss from tiles of the logits.
[[nodiscard]] bool takes_tiles(const DecoderContext& context);
/// Whether that loss is one of preferences: the model ends with log-probabilities, which a
/// reference answers too.
[[nodiscard]] bool prefers(const DecoderContext& context);

/// A sequence has them of all tokens but the first, or of a completion.
[[nodiscard]] Expr targets_of_sequence(const DecoderContext& context);

/// The type of the last hidden state: autocast has a layer norm answer fp32.
[[nodiscard]] DType hidden_type(const DecoderContext& context);

/// The type of what the model answers of each token: FSDP2 casts it to the gathered one.
[[nodiscard]] DType answer_type(const DecoderContext& context);

/// Whether the program passes a mask of the tokens that are no padding with every batch.
[[nodiscard]] bool passes_token_mask(const DecoderContext& context);

/// Why such a program has no graph of this model, or nothing.
std::optional<Unavailable> trl_refusal(const DecoderContext& context);

/// The rows of `x` that `mask` selects, as an index of flags does it, [tokens, width].
struct SelectedRows {
  std::string_view name;
  TensorId x = 0;
  TensorId mask = 0;
  Shape shape;  ///< of the result
};
TensorId selected_rows(BlockBuilder& block, const SelectedRows& part);
/// `x` of selected tokens, set in zeros where `mask` selects.
struct Scattered {
  std::string_view name;
  TensorId x = 0;
  TensorId mask = 0;
};
TensorId scattered(BlockBuilder& block, const Scattered& part);

/// A head is asked for these of each target beside its log-probability.
struct AskedNumbers {
  bool entropy_and_top1 = false;
  bool mean_logits = false;
};
struct TargetScores {
  TensorId log_probs = 0;
  std::vector<TensorId> others;  ///< in the order in which they are made
};
/// The output head's weight, or where its unit is never called all shares of it, gathered as they
/// are stored.
TensorId head_weight(BlockBuilder& block, const DecoderContext& context);
/// ChunkedLogProbFunction: tiles of the logits, twice.
struct TileRows {
  TensorId rows = 0;
  TensorId weight = 0;
  TensorId targets = 0;
};
TargetScores scores_of_tiles(BlockBuilder& block, const DecoderContext& context,
                             const TileRows& rows, AskedNumbers asked);

/// The answer of a head that was given targets (add_fused_lm_head): of all tokens but the last.
struct HeadAnswer {
  TensorId mask = 0;  ///< of those that are targets
  TensorId log_probs = 0;
  std::vector<TensorId> others;
  struct OwnLoss {
    std::optional<TensorId> targets = {};  ///< their number, at least one; absent: a graph's alone
    TensorId loss = 0;
  };
  OwnLoss own_loss;  ///< which nothing reads
};
struct HeadCall {
  TensorId hidden = 0;
  TensorId labels = 0;  ///< by tokens
  AskedNumbers asked = {};
};
/// As DistributedDataParallel answers it where it looks for unused parameters.
void copy_model_answer(BlockBuilder& block, HeadAnswer& answer);
/// As FSDP2 answers it under accelerate's policy, in the gathered type.
void cast_model_answer(BlockBuilder& block, HeadAnswer& answer, DType type);
/// `answer` is the wrapper's, where there is one, behind autocast.
HeadAnswer fused_head(BlockBuilder& block, const DecoderContext& context, const HeadCall& call);

/// A number or vector as every rank has it, one after another; `own` where one rank reports.
enum class Gathered : std::uint8_t { number, vector };
struct Reported {
  Place place;
  TensorId own = 0;
  Gathered kind = Gathered::number;
};
TensorId gathered_report(BlockBuilder& block, const DecoderContext& context, const Reported& part);

/// torch.sum of booleans, which sums them as integers of 64 bits.
TensorId counted_flags(BlockBuilder& block, Place place, TensorId flags);
/// A number made of `of`, without a gradient.
TensorId reduced_to_number(BlockBuilder& block, Place place, TensorId of, DType dtype);

/// SFTTrainer.compute_loss from the last hidden state on, with what it counts for its report.
Block sft_loss_block(const DecoderContext& context);

/// DPOTrainer's: log-probabilities of whole sequences, of the model or its reference; and the loss
/// of both. The labels are the program's, of completions alone.
inline constexpr std::string_view kCompletionLabels = "completion labels";
inline constexpr std::string_view kReferenceLogProbs = "reference log-probs";
Block sequence_log_probs_block(const DecoderContext& context);
Block preference_loss_block(const DecoderContext& context);

}  // namespace memest
