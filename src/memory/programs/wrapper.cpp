#include "memory/programs/wrapper.hpp"

#include <utility>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/engine/loop_habits.hpp"
#include "memory/optimizer/parameter_groups.hpp"
#include "memory/optimizer/steps_in_backward.hpp"
#include "memory/sharding/flat_units.hpp"
#include "memory/sharding/gradient_buckets.hpp"
#include "memory/sharding/parameter_places.hpp"

namespace memest {

Wrapper wrapper_of(const Wrapped& wrapped, ModelPlacement& placement, Recorder& recorder) {
  const auto& [job, graph, inventory, order, data_rank] = wrapped;
  if (shards_by<FlatShards>(job)) {
    auto units =
        std::make_unique<FlatUnits>(FlatUnits::Model{job, graph, order, data_rank}, recorder);
    units->construct(placement);
    return {std::move(units)};
  }
  if (shards_by<RowShards>(job)) {
    const ShardedUnits::Model model{job, graph, inventory, order, launch_device(job.hardware.gpu)};
    auto units = std::make_unique<ShardedUnits>(model, recorder);
    units->hold_until_first_forward(placement.spare());
    ShardedUnits* const own = units.get();
    return {std::move(units), own};
  }
  if (job.training && job.training->steps_in_backward) {
    return {std::make_unique<StepsInBackward>(
        StepsInBackward::Parts{job, parameter_places(graph, order, recorder.timeline()),
                               launch_device(job.hardware.gpu), recorder},
        parameters_in_order(inventory, recorder.timeline()))};
  }
  if (!shards_by<ReplicasOfDdp>(job)) return {};
  auto buckets = std::make_unique<GradientBuckets>(job, inventory, order, recorder);
  if (loop_habits_of(job.forward()->implementation).wrapping != Wrapping::without_its_place)
    buckets->construct();
  return {std::move(buckets)};
}

}  // namespace memest
