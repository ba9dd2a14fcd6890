// The end of the model's forward and the loss in litgpt's validate(): whole logits, whatever
// training does, and one cross-entropy.
#pragma once

#include <cstdint>

#include "memest/spec/job.hpp"
#include "memory/timeline/held_storage.hpp"
#include "memory/timeline/labels.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

class LitgptValidation {
 public:
  /// Both outlive this.
  LitgptValidation(const Job& job, Recorder& recorder);

  /// The logits of `hidden`, the last layer's output, as Fabric answers them.
  HeldStorage answer(HeldStorage hidden);
  /// chunked_cross_entropy(logits[..., :-1, :], targets[..., 1:], chunk_size=0).
  void take_loss();

 private:
  HeldStorage normalized(HeldStorage hidden);
  HeldStorage rms_norm(HeldStorage hidden);
  HeldStorage make(std::int64_t elements, DType dtype);

  Recorder& recorder_;
  DType weights_;
  bool rms_;
  bool quantized_;
  std::int64_t sequences_;
  std::int64_t tokens_;  ///< of all sequences
  std::int64_t hidden_size_;
  std::int64_t vocab_size_;
};

}  // namespace memest
