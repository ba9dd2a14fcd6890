#include "memest/plan/step_memory.hpp"

#include <algorithm>
#include <utility>

#include "memest/graph/lower.hpp"
#include "memest/memory/data_ranks.hpp"
#include "memest/memory/stage_form.hpp"
#include "memest/plan/estimate.hpp"
#include "plan/estimate/replayed_steps.hpp"
#include "plan/estimate/stage_run.hpp"

namespace memest {

bool is_beyond_replay(const Graph& graph) {
  const auto is_too_large = [&graph](const Block& block, TensorId id) {
    const Tensor& tensor = block.tensors[id];
    return tensor.storage == id && tensor.bytes().evaluate(graph.sizes) > kMostReplayed.value();
  };
  for (const Block& block : graph.blocks) {
    for (const Op& op : block.ops) {
      if (std::any_of(op.outputs.begin(), op.outputs.end(),
                      [&](TensorId id) { return is_too_large(block, id); })) {
        return true;
      }
    }
  }
  return false;
}

ReplayDevice replay_device_of(const Job& job) {
  const Hardware& hardware = job.hardware;
  const Bytes total = hardware.gpu.capacity.value;
  // PyTorch's memory fraction is a limit of the allocator alone: the device is larger.
  if (hardware.memory)
    return {std::max(total, *hardware.memory), std::max(total, *hardware.memory), hardware.memory};
  // The context and NCCL's buffers are on the device before the allocator asks for its first
  // segment.
  return {total, total - outside_bytes(job).expected, std::nullopt};
}

std::variant<StepMemory, Unavailable> step_memory_of(const Job& job, JobRank rank) {
  if (job.forward() == nullptr) return Unavailable{kRunsNothing};
  if (std::holds_alternative<BudgetRecompute>(job.recompute())) return Unavailable{kBudgetOpen};
  auto lowered = lower(job.model, policy_of(job, rank.pipeline));
  if (auto* reason = std::get_if<Unavailable>(&lowered)) return std::move(*reason);
  return step_memory_of(std::get<Graph>(std::move(lowered)), job, rank);
}

std::variant<StepMemory, Unavailable> step_memory_of(Graph graph, const Job& job, JobRank rank) {
  if (is_beyond_replay(graph)) return Unavailable{kBeyondReplay};
  StepMemory memory;
  memory.graph = std::move(graph);
  auto written = write_timeline(memory.graph, job, rank);
  if (auto* reason = std::get_if<Unavailable>(&written)) return std::move(*reason);
  memory.timeline = std::move(std::get<Timeline>(written));
  memory.replay = replay_steps(memory.timeline, job.allocator, replay_device_of(job));
  return memory;
}

std::int64_t worst_data_rank(const Job& job, std::int64_t pipeline_rank) {
  if (data_ranks_of(job) == 1) return 0;
  const auto lowered = lower(job.model, policy_of(job, pipeline_rank));
  const auto* graph = std::get_if<Graph>(&lowered);
  if (graph == nullptr) return 0;
  const auto run = run_stage(*graph, job, pipeline_rank, StageRunEnd::worst_known);
  return run ? run->ranks.worst : 0;
}

std::string moment_name(const StepMemory& memory, StorageId storage) {
  const Label& label = memory.timeline.storages[storage].label;
  std::string name = storage_name(memory.timeline, memory.graph, storage);
  if (label.step == 0) return name + ", before the first step";
  return name + ", in step " + std::to_string(label.step) + "'s " +
         std::string(name_of(label.phase));
}

std::string moment_of_event(const StepMemory& memory, std::uint32_t event) {
  return moment_name(memory, memory.timeline.events[event].storage);
}

}  // namespace memest
