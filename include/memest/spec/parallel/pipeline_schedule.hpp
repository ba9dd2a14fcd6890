// Pipeline schedules as data: which layers a rank holds, and in which order it runs the forwards
// and backwards of a step's micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memest/spec/parallel/parallelism.hpp"

namespace memest {

/// One rank of a pipeline.
struct PipelinePlace {
  std::int64_t ranks = 1;   ///< p
  std::int64_t rank = 0;    ///< from 0 on
  std::int64_t chunks = 1;  ///< v: stages a rank holds
  bool v_shaped = false;    ///< two of them, the second on the way back through the ranks
};
/// The rank's place in a job's pipeline.
PipelinePlace place_of(const Parallelism& parallelism, std::int64_t rank);
/// Which of the model's stages a rank's chunk is, from 0 on: c·p + r; of a V 2·p - 1 - r.
std::int64_t stage_index(const PipelinePlace& place, std::int64_t chunk);

/// Layers [first, first + count) of the model.
struct LayerSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;

  friend auto operator<=>(const LayerSpan&, const LayerSpan&) = default;
};

/// How a model's layers are cut into stages, however the layout says it: by its list; or the ranks
/// at the ends have layers of their own number and the others the rest, the chunks of a rank alike;
/// or as evenly as can be, the first stages one more, where an end may count as a layer.
class StageSplit {
 public:
  /// The layout's stages of so many layers; `ends`: for how many each end of the model counts
  /// whatever the layout says.
  StageSplit(std::int64_t layers, const Parallelism& layout, std::int64_t ends);
  /// One stage, which has them all.
  explicit StageSplit(std::int64_t layers) : layers_(layers) {}

  [[nodiscard]] std::int64_t stages() const { return ranks_ * chunks_; }
  /// The layers of stage `index`, from 0 on in the model's order.
  [[nodiscard]] LayerSpan stage(std::int64_t index) const;

 private:
  [[nodiscard]] std::int64_t first_of(std::int64_t index) const;

  std::int64_t layers_ = 0;
  std::int64_t ranks_ = 1;
  std::int64_t chunks_ = 1;
  std::int64_t first_ = 0;  ///< of the first rank; 0: as the others
  std::int64_t last_ = 0;
  std::int64_t embedding_ = 0;        ///< layers that it counts for
  std::int64_t loss_ = 0;             ///< and the head with it
  std::vector<std::int64_t> listed_;  ///< the first layer of each stage, and the end
};

/// The stages of a rank, by chunk.
std::vector<LayerSpan> stages_of(const StageSplit& split, const PipelinePlace& place);

/// The part of a backward that runs: zero-bubble schedules have two, the second at any later time.
enum class BackwardPart : std::uint8_t { whole, inputs, weights };

struct PipelineAction {
  bool forward = true;
  std::int64_t micro_batch = 0;  ///< from 0 on
  std::int64_t chunk = 0;
  BackwardPart part = BackwardPart::whole;  ///< of a backward

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

/// Whether a schedule runs backwards in two parts.
bool splits_backwards(Schedule schedule);
/// Whether a schedule is one of several stages a rank.
bool has_chunks(Schedule schedule);
/// Whether it lays two of them out as a V: the rank of the last stage has the first one too.
bool is_v_shaped(Schedule schedule);

/// Forwards in a rank's warm-up phase, before it alternates forwards and backwards.
std::int64_t warmup_of(Schedule schedule, const PipelinePlace& place, std::int64_t micro_batches);

/// The actions of `place` in a step, in order (Megatron-core's schedules.py). Interleaved: the
/// micro-batches are a multiple of the ranks. Zero-bubble: ZB-H1, which keeps as many micro-batches
/// in flight as 1F1B (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.1), and with
/// several chunks PyTorch's ScheduleInterleavedZeroBubble. V-shaped: its ScheduleZBVZeroBubble, and
/// ScheduleDualPipeV, which takes as many micro-batches as there are stages or more.
std::vector<PipelineAction> actions_of(Schedule schedule, const PipelinePlace& place,
                                       std::int64_t micro_batches);

/// The most micro-steps whose backward is not done, of all chunks.
std::int64_t most_in_flight(const std::vector<PipelineAction>& actions);
/// As above for the actions that actions_of() returns, in closed form.
std::int64_t most_in_flight(Schedule schedule, const PipelinePlace& place,
                            std::int64_t micro_batches);

/// Seconds of one micro-batch in a stage, with what the stage then waits to send on.
struct StageSeconds {
  double forward = 0;
  double backward = 0;  ///< whole
  double weights = 0;   ///< of the backward the part that makes the weights' gradients
  double travel = 0;    ///< of a message to the next stage or back from it, beside the ranks' work
};

/// A step of a whole pipeline.
struct PipelineStep {
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;
  std::int64_t micro_batches = 1;
};

/// How long the forwards and backwards take until the last has ended, by running the schedule:
/// `stages` in order of the layers, ranks · chunks of them.
double makespan(const PipelineStep& step, std::span<const StageSeconds> stages);

/// As above in closed form, without a list of actions. Exact where all stages are equal, and for
/// GPipe and 1F1B with any first and last stage around equal ones; interleaved stages that differ
/// by a layer add up to 8 %. V-shaped schedules have none, and are run.
double closed_makespan(const PipelineStep& step, std::span<const StageSeconds> stages);

}  // namespace memest
