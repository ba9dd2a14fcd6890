// Step time of one rank: every kernel call of its operations priced by the laws of its GPU, the
// optimizer, and what collectives leave exposed, over the share of a step that kernels explain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/flops.hpp"
#include "memest/time/gpu_laws.hpp"
#include "memest/time/loading.hpp"
#include "memest/time/priced_model.hpp"
#include "memest/time/prices.hpp"
#include "memest/time/work.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// One operation over the whole step: all layers, micro-steps and passes.
struct OpTime {
  std::string block;    ///< "layer"; for what is no op of the graph "optimizer", "data parallel",
                        ///< "tensor parallel", ..., "pipeline parallel"
  std::string_view op;  ///< a literal
  OpClass op_class = OpClass::contraction;
  Seconds seconds;
  Bound bound = Bound::compute;
  double intensity = 0;  ///< FLOPs a byte moved, forward
  double flops = 0;      ///< that run in all passes, recompute included
  double bytes = 0;      ///< that they read and write
  LawOrigin origin;      ///< of the pass that takes longer
};

/// Seconds that kernels of one kind take together.
template <class Kind>
struct TimePart {
  Kind kind;
  Seconds seconds;
};

/// One rank of a pipeline over one micro-step.
struct StageTime {
  std::int64_t rank = 0;
  Seconds forward;
  Seconds backward;  ///< recompute included
};

struct TimeEstimate {
  Seconds step;
  Seconds low;
  Seconds high;
  double mfu = 0;  ///< FlopsEstimate::required over the peak: of fp8 where layers run in it, else
                   ///< of the compute type
  double hfu = 0;  ///< FlopsEstimate::computed over the same peak
  double tokens_per_second_per_gpu = 0;
  double ridge_point = 0;   ///< FLOPs a byte at which the datasheet's compute and memory bind alike
  std::vector<OpTime> ops;  ///< of the rank that works most, longest first
  std::vector<StageTime> stages;         ///< of a pipeline
  Seconds bubble;                        ///< that its busiest rank waits for the others
  std::string_view rule;                 ///< how kernels' times become a step's, in one sentence
  SourceMargin published;                ///< of whole runs: the interval is at least as wide
  std::optional<InputPipeline> loading;  ///< where the job names a loader

  /// The sums over `ops`, longest first.
  [[nodiscard]] std::vector<TimePart<OpClass>> by_class() const;
  [[nodiscard]] std::vector<TimePart<LawOrigin>> by_origin() const;
  /// The origin of the laws behind most of the step.
  [[nodiscard]] LawOrigin origin() const;
};

/// `job.training` is present; `graph` is of the whole model, with what its ranks share of a layer.
/// Unavailable where the GPU has no rate for the compute type, no memory bandwidth, or no link to
/// its peers, and over several nodes where nothing is known of their network. `flops` are the mean
/// of all ranks.
std::variant<TimeEstimate, Unavailable> estimate_step_time(const Graph& graph, const Job& job,
                                                           const FlopsEstimate& flops);

/// As above, over work already evaluated for the job's micro-batch and recompute.
std::variant<TimeEstimate, Unavailable> estimate_step_time(const StepWork& work, const Job& job,
                                                           const FlopsEstimate& flops);

/// Only the expected seconds of the step: what a search asks for. `prices` are of the same
/// operations on the job's GPU. Defined where laws_of() is.
Seconds expected_step_time(const StepWork& work, const Job& job, const GpuLaws& laws,
                           const std::vector<OpPrice>& prices);

/// The laws of the job's GPU, which outlives them, or why its steps have no time.
std::variant<GpuLaws, Unavailable> laws_of(const Job& job);

}  // namespace memest
