// One micro-step as its operations and the tensors that autograd keeps between them, with what else
// is alive while each runs: schedules that drop tensors and make or fetch them again are played
// over it. Heights are read off the replayed timeline, so that a schedule which keeps all has the
// timeline's own peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memest/memory/step_replay.hpp"
#include "memest/memory/timeline.hpp"

namespace memest {

/// A storage that the forward makes. None of them are what the caller hands in, what blocks know by
/// name (tables of angles), and autocast's copies of weights, which its cache holds for the whole
/// micro-step: those stay.
struct StepTensor {
  std::int64_t bytes = 0;      ///< as the allocator rounds them
  std::uint32_t instance = 0;  ///< of the forward order's blocks
  TensorId tensor = 0;         ///< of the block
  /// Operations that write it in order: its maker, and those that change it in place.
  std::vector<std::uint32_t> makers;
  std::vector<std::uint32_t> readers;  ///< operations whose forward reads it, in order
  std::vector<std::uint32_t> savers;   ///< operations whose backward reads it, in order
};

/// Bytes beside the tensors of StepTensors while an operation's pass runs.
struct PassHeight {
  std::int64_t before = 0;  ///< as the pass begins
  std::int64_t most = 0;    ///< at its peak
};

struct StepOp {
  std::uint32_t block = 0;     ///< index into Graph::blocks
  std::uint32_t op = 0;        ///< of the block
  std::uint32_t instance = 0;  ///< of the forward order's blocks
  OpClass op_class = OpClass::elementwise;
  bool in_layer = false;             ///< of a block that frameworks put into checkpoints
  std::vector<std::uint32_t> makes;  ///< tensors that it writes, those in place too
  std::vector<std::uint32_t> reads;
  std::vector<std::uint32_t> saves;
  PassHeight forward;
  PassHeight backward;
};

struct StepTensors {
  std::vector<StepOp> ops;  ///< of the forward, in order; the backward runs them in reverse
  std::vector<StepTensor> tensors;
  std::int64_t outside = 0;  ///< the timeline's peak outside both passes: the optimizer's step
};

/// A micro-step of `timeline`, which is that of `graph`, as its replay found it: a training that
/// recomputes nothing, of one stage. Heights are the highest of all micro-steps.
StepTensors step_tensors_of(const Graph& graph, const Timeline& timeline, const StepReplay& replay);

}  // namespace memest
