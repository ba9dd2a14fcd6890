// DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py, DeepSpeedZeroOptimizer.__init__:
// flatten_on_accelerator = available_memory >= flat_buffer_bytes, where available_memory is what
// NVML calls free behind an empty_cache().
#include "memest/memory/flattening.hpp"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "memest/spec/inventory.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memest/units/int128.hpp"
#include "memory/states/flat_partitions.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"

namespace memest {

bool flattens_on_host(const Graph& graph, const Job& job) {
  if (!job.training || !job.parallelism.offload.optimizer) return false;
  if (!shards_by<DeepSpeedZero>(job)) return false;
  if (std::get<DeepSpeedZero>(sharding_of(job)).shards_weights()) return false;
  std::vector<std::int64_t> elements;
  std::int64_t all = 0;
  for (const PlacedTensor& placed : tensors_in_order(graph.parameters)) {
    const ParameterTensor& row = graph.parameters.parameters[placed.row];
    if (placed.buffer || !row.trainable) continue;
    elements.push_back(elements_of(row));
    all = checked_add(all, elements.back());
  }
  const FlatPartitions partitions(std::move(elements), job.parallelism.data);
  const std::int64_t weights = size_of(job.training->recipe.weights);
  const Bytes both(checked_multiply(checked_add(all, partitions.elements()), weights));
  // The most that may be free: where context and NCCL may take less than expected, the GPU is
  // taken to flatten, which needs more of it.
  return both > job.hardware.gpu.capacity.value - outside_terms(job).low;
}

}  // namespace memest
