// TRL's part of a training step (trl 1.16): the output head and the loss of its trainers, which
// make log-probabilities of the targets without whole logits.
#pragma once

#include <optional>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// Whether the program around the model takes its loss from tiles of the logits.
[[nodiscard]] bool takes_tiles(const DecoderContext& context);

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
/// `x` of selected tokens, set in zeros where `mask` of `shape` selects.
struct Scattered {
  std::string_view name;
  TensorId x = 0;
  TensorId mask = 0;
};
TensorId scattered(BlockBuilder& block, const Scattered& part);

/// The head's answer for each target, of selected tokens.
struct TargetScores {
  TensorId log_probs = 0;
  TensorId entropy = 0;
  TensorId is_top1 = 0;
};
/// ChunkedLogProbFunction: tiles of the logits, twice.
TargetScores scores_of_tiles(BlockBuilder& block, const DecoderContext& context, TensorId hidden,
                             TensorId targets);

/// SFTTrainer.compute_loss from the last hidden state on, with what it counts for its report.
TensorId sft_loss(BlockBuilder& block, const DecoderContext& context, TensorId hidden);

}  // namespace memest
