#include "memory/programs/event_bound.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/engine/loop_habits.hpp"

namespace memest {
namespace {

/// Twenty times those of 61 layers with experts over 32 micro-batches in flight; with what is kept
/// of each, 300 MB.
constexpr std::int64_t kMostEvents = 6'000'000;

// Events that programs make, most of them a tensor that comes and goes.
constexpr std::int64_t kEventsOfOperation = 8;   ///< forward, backward and one recompute
constexpr std::int64_t kEventsOfParameter = 16;  ///< gradient, states, temporaries of a step

bool captures_iteration(const Job& job) {
  return job.training && job.training->implementation.cuda_graph.full_iteration;
}

std::int64_t micro_steps_of(const Job& job) {
  if (!job.training) return 1;
  const std::int64_t most = checked_multiply(kMostMicroSteps, job.parallelism.pipeline);
  return std::min(job.training->gradient_accumulation, most);
}

Int128 operations_of(const Graph& graph, const std::vector<BlockRun>& order) {
  Int128 operations = 0;
  for (const BlockRun& run : order) {
    operations += static_cast<Int128>(run.repeat) *
                  static_cast<std::int64_t>(graph.blocks[run.block].ops.size());
  }
  return operations;
}

/// Operations of generate()'s passes behind the forward of its prompts, over all tokens.
Int128 operations_of_decoding(const Graph& graph, const Job& job) {
  if (graph.decoding.empty()) return 0;
  const Int128 operations = operations_of(graph, graph.decoding.back().order);
  // A choice of tokens makes some hundred tensors.
  constexpr std::int64_t kEventsOfChoice = 300;
  return (2 * operations + kEventsOfChoice) * job.inference->generation->tokens;
}

}  // namespace

std::variant<std::int64_t, Unavailable> most_events(const Graph& graph, const Job& job) {
  const Int128 operations = operations_of(graph, graph.order) + operations_of(graph, graph.teacher);
  Int128 parameters = 0;
  for (const Inventory* inventory : {&graph.parameters, &graph.teacher_parameters}) {
    for (const ParameterTensor& tensor : inventory->parameters) parameters += tensor.count;
  }
  if (job.training && job.training->averages_weights) parameters *= 2;  // a copy of each
  // A captured step is one more, of which all micro-steps are followed.
  const std::int64_t captured = captures_iteration(job) ? 1 : 0;
  const std::int64_t steps = job.training ? job.training->steps : 1;
  const std::int64_t in_capture =
      captured * (job.training ? job.training->gradient_accumulation : 0);
  const Int128 micro_steps = static_cast<Int128>(steps) * micro_steps_of(job) + in_capture;
  const Int128 events = operations * kEventsOfOperation * micro_steps +
                        (steps + captured) * parameters * kEventsOfParameter +
                        2 * operations_of_decoding(graph, job);
  if (events <= kMostEvents) return static_cast<std::int64_t>(events);
  return Unavailable{"a timeline of more than 6 million events is not available"};
}

}  // namespace memest
