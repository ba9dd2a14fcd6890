// One job, answered whole: parameters, memory, FLOPs, time and money, each either a value or the
// sentence that says why not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/memory/host_memory.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/inference_time.hpp"
#include "memest/time/step_time.hpp"

namespace memest {

/// All GPUs of the job together.
struct CostEstimate {
  Dollars per_hour;
  Dollars per_step;
  Dollars per_billion_tokens;
  std::string source;
};

/// The training steps replayed, allocation by allocation, through PyTorch's caching allocator.
struct ReplayedSteps {
  StepMemory step;  ///< under the capacity: with retries, or out of memory
  /// The replay with all the memory that it asks for; where the capacity made it retry or ended it.
  std::optional<StepReplay> unlimited;
  /// The replay with expandable segments in equal capacity; where it runs out without them.
  std::optional<StepReplay> expandable;

  /// The replay with all the memory that the steps ask for.
  [[nodiscard]] const StepReplay& unpressed() const { return unlimited ? *unlimited : step.replay; }
};

/// The data ranks of a stage, which may step other pieces of the parameters (data_ranks.hpp).
struct DataRanks {
  std::int64_t worst = 0;     ///< whose memory stands for all
  std::int64_t followed = 1;  ///< how many were replayed to find it
  std::int64_t count = 1;     ///< 1: all are alike
};

/// Ranks of a job that run the same part of the model.
struct RankClass {
  std::string name;        ///< "first stage", "stage 2 of 4"; empty where there is one
  std::int64_t rank = 0;   ///< of the pipeline
  std::int64_t count = 1;  ///< GPUs
  DataRanks data = {};
};

struct BytesInterval {
  Bytes expected;
  Bytes low;
  Bytes high;
};

/// A moment of the step, and what PyTorch's allocator has handed out then.
struct HighMoment {
  std::string name;
  Bytes allocated;
};

/// The most of one key that fits with all others as they are; 0: not even the least fits.
struct LargestValue {
  /// The reason why a larger one is none.
  enum class Bound : std::uint8_t {
    memory,
    key,    ///< the model has no more positions, or the key takes no more
    events  ///< more are not followed
  };
  std::int64_t value = 0;
  Bound bound = Bound::memory;
};

/// A ledger with its value, so that every number can be explained. Where the steps are replayed it
/// is read off their events (alive_ledger.hpp); else it is the closed form.
struct MemoryAnswer {
  RankClass ranks;
  Ledger ledger;
  MemoryEstimate estimate;
  /// The peak of the closed form, within the allocator; absent where the job has none.
  std::optional<Bytes> closed_form;
  /// The highest moments of the step, one of each kind, the peak first.
  std::vector<HighMoment> moments;
  Capacity capacity;
  /// Whether it fits the device, by the replay: does-not-fit exactly where it runs out of memory.
  Verdict verdict = Verdict::too_close_to_call;
  std::variant<ReplayedSteps, Unavailable> replay = Unavailable{};
  Margin replay_margin;  ///< of reserved(), from recorded runs
  /// Margins from runs that others published, of any release of the programs.
  SourceMargins published;
  SimpleView simple;
  /// The job's largest micro-batch, where asked for (find_largest_micro_batch); 0: none fits.
  std::optional<std::int64_t> largest_micro_batch;
  /// The most beams and tokens of a generation, likewise; absent beams: it samples.
  std::optional<LargestValue> largest_beams = {};
  std::optional<LargestValue> largest_tokens = {};
  std::variant<Bytes, Unavailable> saved;  ///< kept by autograd in one forward
  /// Bytes that autograd keeps of each layer, in order; empty where every layer is recomputed.
  std::vector<Bytes> saved_by_layer;
  std::optional<HostMemory> host;     ///< where something is offloaded
  std::optional<HostNeed> host_need;  ///< `host` held against the node's memory

  /// The worse of the device's verdict and its host's.
  [[nodiscard]] Verdict overall() const;

  /// Null where the closed form alone answers.
  [[nodiscard]] const ReplayedSteps* replayed() const {
    return std::get_if<ReplayedSteps>(&replay);
  }
  /// The peak of what tensors take, and of what the allocator reserves for them; the closed form
  /// knows the first only.
  [[nodiscard]] Bytes allocated() const;
  [[nodiscard]] std::optional<Bytes> reserved() const;
  /// reserved (or allocated) and the context: what nvidia-smi shows.
  [[nodiscard]] Bytes device() const;
  /// Interval of device().
  [[nodiscard]] Bytes low() const;
  [[nodiscard]] Bytes high() const;
  /// The capacity that is taken: device(), or under an allocator's limit what the allocator holds.
  [[nodiscard]] BytesInterval of_capacity() const;
  /// Intervals of the same under releases that nobody recorded: at least as wide as that of the
  /// recorded ones. Absent where nobody published such a run.
  [[nodiscard]] std::optional<BytesInterval> device_of_any_release() const;
  [[nodiscard]] std::optional<BytesInterval> reserved_of_any_release() const;
};

struct JobEstimate {
  ParameterCounts parameters;
  /// The ranks that take most; where some ranks do not fit, the largest of those.
  std::variant<MemoryAnswer, Unavailable> memory;
  std::vector<MemoryAnswer> other_ranks;  ///< of a pipeline, those that take most first
  std::variant<FlopsEstimate, Unavailable> flops;
  std::variant<TimeEstimate, Unavailable> time;
  std::optional<InferenceTime> inference_time = {};  ///< in place of `time` where nothing is trained
  std::variant<CostEstimate, Unavailable> cost;
  std::vector<std::string> assumptions;  ///< what the answer takes for granted, a sentence each:
                                         ///< "gfx942 is no CUDA device: ..."
};

/// The compute capability that `gpu` is lowered for. One without (AMD, unannounced) is taken for
/// 8.0, where PyTorch's attention is flash; an estimate says so among its assumptions.
ComputeCapability lowered_capability(const GpuSpec& gpu);

/// The policy by which `job`'s training or inference (one is present) is lowered for
/// its GPU and one rank of its pipeline. Layers are a multiple of the pipeline's stages.
LoweringPolicy policy_of(const Job& job, std::int64_t pipeline_rank = 0);

/// The money of a step (of a call, where nothing is trained) of `seconds` at `price` a GPU-hour,
/// all GPUs of `job` together. A call's tokens are those that it makes, or where it makes none the
/// prompts'.
CostEstimate cost_of(const Job& job, DollarsPerHour price, Seconds seconds);

/// Bytes that autograd keeps in one forward of `job` under its recompute. Throws OverflowError.
Bytes saved_bytes_of(const Graph& graph, const TrainingSpec& training);

/// As above, per layer: bytes it is the first to keep; empty where layers are recomputed.
std::vector<Bytes> saved_bytes_by_layer(const Graph& graph, const TrainingSpec& training);

/// Throws OverflowError where a size leaves its range.
JobEstimate estimate_job(const Job& job);
/// As above, with the memory of one data rank in place of the worst.
JobEstimate estimate_job(const Job& job, std::int64_t data_rank);

/// Sets the largest micro-batch of an estimate of `job` whose memory is known: with it, and as many
/// accumulation steps as the job has, every rank's verdict is that it fits; with one sequence more
/// it is not. A generation has its prompts so searched, then its beams and its tokens, each with
/// the others as they are. Throws OverflowError.
void find_largest_micro_batch(const Job& job, JobEstimate& estimate);

}  // namespace memest
