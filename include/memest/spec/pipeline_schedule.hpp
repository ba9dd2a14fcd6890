// Pipeline schedules as data: which layers a rank holds, and in which order it runs the forwards
// and backwards of a step's micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/spec/parallelism.hpp"

namespace memest {

/// One rank of a pipeline.
struct PipelinePlace {
  std::int64_t ranks = 1;   ///< p
  std::int64_t rank = 0;    ///< from 0 on
  std::int64_t chunks = 1;  ///< v: stages a rank holds
};

/// Layers [first, first + count) of the model.
struct LayerSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;

  friend bool operator==(const LayerSpan&, const LayerSpan&) = default;
};

/// The stages of a rank, which lie round the ranks: chunk c of rank r is stage c·p + r. `layers`
/// is a multiple of p·v.
std::vector<LayerSpan> stages_of(std::int64_t layers, const PipelinePlace& place);

struct PipelineAction {
  bool forward = true;
  std::int64_t micro_batch = 0;  ///< from 0 on
  std::int64_t chunk = 0;

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

/// What a rank runs before its first backward.
std::int64_t warmup_of(Schedule schedule, const PipelinePlace& place, std::int64_t micro_batches);

/// What `place` runs in a step, in order (Megatron-core's schedules.py). Interleaved: the number of
/// micro-batches is a multiple of the ranks.
std::vector<PipelineAction> actions_of(Schedule schedule, const PipelinePlace& place,
                                       std::int64_t micro_batches);

/// The most micro-steps whose backward is still to come, of all chunks.
std::int64_t most_in_flight(const std::vector<PipelineAction>& actions);
/// The same of what actions_of() answers, in closed form.
std::int64_t most_in_flight(Schedule schedule, const PipelinePlace& place,
                            std::int64_t micro_batches);

/// How long a step of the whole pipeline takes, where a forward and a backward of one chunk take
/// so many units of time and messages none.
struct ActionTimes {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
};
std::int64_t makespan(Schedule schedule, const PipelinePlace& any, std::int64_t micro_batches,
                      const ActionTimes& times);

}  // namespace memest
