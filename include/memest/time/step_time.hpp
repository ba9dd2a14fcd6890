// Step time of one rank: every operation at the slower of its compute and its traffic, launches,
// the optimizer, and the collectives of data parallelism. Until a GPU is measured, the rates are
// the datasheet's times a stated efficiency, and the interval is as wide as published measurements
// scatter around that rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"
#include "memest/time/flops.hpp"
#include "memest/time/work.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

enum class Bound : std::uint8_t { compute, memory, link, launch };
std::string_view name_of(Bound bound);

/// One operation over the whole step: all layers, micro-steps and passes.
struct OpTime {
  std::string block;    ///< "layer"; "optimizer" and "data parallel" for what is no op of the graph
  std::string_view op;  ///< a literal
  OpClass op_class = OpClass::contraction;
  Seconds seconds;
  Bound bound = Bound::compute;
  double intensity = 0;  ///< FLOPs a byte moved, forward
  double flops = 0;      ///< of all passes, recompute included
  double bytes = 0;      ///< that they read and write
};

struct TimeEstimate {
  Seconds step;
  Seconds low;
  Seconds high;
  double mfu = 0;  ///< model FLOPs (the `model` convention) over the compute type's peak
  double hfu = 0;  ///< executed FLOPs over the same peak
  double tokens_per_second_per_gpu = 0;
  double ridge_point = 0;   ///< FLOPs a byte at which the datasheet's compute and memory bind alike
  std::vector<OpTime> ops;  ///< longest first
  Provenance provenance = Provenance::datasheet;
  std::string_view rule;  ///< the efficiency rule in one sentence, with its source
};

/// `job.training` is present. Unavailable where the GPU has no rate for the compute type, no memory
/// bandwidth, or no link to its peers, and over several nodes.
std::variant<TimeEstimate, Unavailable> estimate_step_time(const Graph& graph, const Job& job,
                                                           const FlopsEstimate& flops);

/// The same over work already evaluated for the job's micro-batch and recompute.
std::variant<TimeEstimate, Unavailable> estimate_step_time(const StepWork& work, const Job& job,
                                                           const FlopsEstimate& flops);

/// Only the expected seconds of the step: what a search asks for.
std::variant<Seconds, Unavailable> expected_step_time(const StepWork& work, const Job& job);

}  // namespace memest
