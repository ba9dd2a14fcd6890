// The parts of GPTModel around its layers: what is embedded, the prediction of several tokens, and
// the output layer with its loss.
#pragma once

#include <string_view>

#include "graph/lower/megatron/megatron.hpp"

namespace memest {

/// Results that GPTModel.forward, or _postprocess, names until it returns.
inline constexpr std::string_view kDecoded = "decoded tokens";
inline constexpr std::string_view kPredictedLabels = "predicted tokens";
inline constexpr std::string_view kPredictedLogits = "predicted tokens' logits";
inline constexpr std::string_view kPredictedLoss = "predicted tokens' loss";

struct MegatronHead {
  bool ties = false;   ///< output_layer reads the embedding's own Parameter
  bool embeds = true;  ///< this stage embeds the model's input
  bool norms = true;   ///< and has the final norm
};

/// `named`: GPTModel.forward names what is embedded, which no layer keeps where it is frozen.
Block megatron_embedding(const MegatronContext& context, bool named);
/// The final norm of a stage without a head.
Block megatron_final_norm(const MegatronContext& context);
Block megatron_head(const MegatronContext& context, const MegatronHead& head);
Block megatron_loss(const MegatronContext& context);

/// The embedding as another module calls it, of `ids` [b, s]; on a stage without the model's own
/// its table is a copy (`copied`).
TensorId embedded_again(BlockBuilder& block, const MegatronContext& context, TensorId ids,
                        bool copied);
/// VocabParallelCrossEntropy or Transformer Engine's, of `targets` [b, s]: a loss a token.
TensorId losses_of_tokens(BlockBuilder& block, const MegatronContext& context, TensorId logits,
                          TensorId targets);

/// make_viewless_tensor: a view becomes a tensor of its own, by way of one of a single element.
TensorId viewless(BlockBuilder& block, std::string_view name, TensorId x);

/// The modules that MultiTokenPredictionLayer shares with the model.
struct SharedModules {
  bool embedding = true;  ///< the model's own, which this stage has; else a copy
  ParallelProduct head;   ///< with its weight
};
/// The output layer's input, and a number that is named until it answers.
struct PredictedTokens {
  TensorId hidden = 0;
  TensorId named = 0;
};
/// MultiTokenPredictionBlock behind the final norm's answer `x`, and the losses of what it
/// predicts, whose backward is tied to that of `x` (MTPLossAutoScaler).
PredictedTokens predict_tokens(BlockBuilder& block, const MegatronContext& model,
                               const SharedModules& shared, TensorId x);

}  // namespace memest
