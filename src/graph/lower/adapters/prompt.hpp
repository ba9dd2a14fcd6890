// A prompt that peft trains: tokens before every sequence's own.
#pragma once

#include <array>
#include <string_view>

#include "graph/lower/ops/decoder_context.hpp"

namespace memest {

/// The labels that the loss reads, of the prompt's tokens and the sequence's own.
inline constexpr std::string_view kPromptedLabels = "prompted labels";
/// Locals of PeftModelForCausalLM.forward, which end when the model has answered.
inline constexpr std::array<std::string_view, 4> kPromptLocals = {
    "labels of the prompt", kPromptedLabels, "prompt", "prompted embeddings"};

/// The embeddings of both, of those of the sequence's own `tokens`.
TensorId prompted(BlockBuilder& block, const DecoderContext& context, TensorId tokens,
                  TensorId embeddings);

}  // namespace memest
