// The batches that Megatron's loop gives its micro-steps. Where a full iteration is captured as a
// CUDA graph, a whole step's lie on the device for good (StaticBufferLoader of full_cuda_graph.py),
// and every step's are copied into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memest/spec/job.hpp"
#include "memest/spec/recompute/recompute.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// The tensors of one micro-step beside its tokens. The attention mask is of no storage where the
/// loader makes none.
struct MicroBatch {
  HeldStorage labels;
  HeldStorage loss_mask;
  HeldStorage positions;
  HeldStorage attention_mask;
};

class MegatronBatches {
 public:
  MegatronBatches(const Job& job, Recorder& recorder);

  /// Makes the step's batches where they stay; `at_end`: of the model's first or last stage.
  void stay(bool at_end);
  /// The next micro-step's, whose tokens take the place of the last one's.
  [[nodiscard]] MicroBatch next(HeldStorage& tokens, bool at_end);

 private:
  struct Staying {
    HeldStorage tokens;
    MicroBatch rest;
  };
  [[nodiscard]] MicroBatch make(HeldStorage& tokens, bool at_end) const;
  [[nodiscard]] HeldStorage of(std::int64_t elements, DType type, LoopTensor tensor) const;

  Recorder& recorder_;
  std::int64_t micro_steps_;
  std::int64_t sequences_;
  std::int64_t seq_len_;  // of a rank
  bool stays_;
  bool has_masks_;
  std::vector<Staying> staying_;
  std::size_t read_ = 0;
};

/// Fused attention does not read the mask; checkpoints of whole layers and of the attention core
/// hold it with their arguments (TransformerBlock, Attention._checkpointed_attention_forward),
/// those of other parts are not given it.
bool keeps_attention_mask(const Recompute& recompute);

}  // namespace memest
