// Inference as asked for, without gradients and in evaluation mode: the forward of a prompt
// (prefill), and with new tokens the whole of generate().
#pragma once

#include <cstdint>
#include <optional>

#include "memest/spec/training.hpp"

namespace memest {

/// The tokens of which the model computes logits.
enum class KeptLogits : std::uint8_t { last, all };

/// Tokens behind the prompt, as transformers' GenerationMixin.generate() makes them: a forward of
/// the prompts, then one of a single token a sequence for every token but the last.
struct Generation {
  std::int64_t tokens = 0;  ///< max_new_tokens, from 1 on: no sequence ends before
  std::int64_t beams = 1;   ///< num_beams: sequences that one prompt has
  bool samples = false;     ///< do_sample
};

/// `seq_len` is the prompt's length, `micro_batch` how many sequences run at once: the beams of a
/// prompt are sequences of their own.
struct InferenceSpec : ForwardSpec {
  KeptLogits logits = KeptLogits::last;
  std::optional<Generation> generation = {};  ///< absent: the forward alone

  [[nodiscard]] std::int64_t beams() const { return generation ? generation->beams : 1; }
  [[nodiscard]] std::int64_t prompts() const { return micro_batch / beams(); }
};

}  // namespace memest
