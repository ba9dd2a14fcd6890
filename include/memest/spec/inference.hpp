// Inference as asked for: the forward of a prompt (prefill), without gradients and in evaluation
// mode.
#pragma once

#include <cstdint>

#include "memest/spec/training.hpp"

namespace memest {

/// The tokens of which the model computes logits.
enum class KeptLogits : std::uint8_t { last, all };

/// `seq_len` is the prompt's length, `micro_batch` how many prompts run at once.
struct InferenceSpec : ForwardSpec {
  KeptLogits logits = KeptLogits::last;
};

}  // namespace memest
