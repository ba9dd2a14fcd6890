#include "plan/layouts/layout_times.hpp"

namespace memest {

const PricedModel& LayoutTimes::priced(
    const TimedDevice& device, const Graph& graph, const Parallelism& layout,
    std::pair<std::int64_t, std::size_t> micro_batch_and_recompute) {
  const auto [micro_batch, recompute] = micro_batch_and_recompute;
  const GroupPlaces places = places_of(layout, job_.hardware.linked_gpus());
  const auto place = [&](RankGroup group) { return places[static_cast<std::size_t>(group)]; };
  // Messages inside a layer are priced here; data parallelism's and the pipeline's, in a step.
  const PriceKey key{device.index,
                     &graph,
                     micro_batch,
                     recompute,
                     place(RankGroup::tensor),
                     place(RankGroup::context),
                     place(RankGroup::expert),
                     layout.ranks() == 1};
  const auto& made = models_.at(key, [&] {
    auto priced = std::make_unique<Priced>();
    priced->job = job_;
    priced->job.hardware.gpu = *device.of.gpu;
    priced->job.lay_over(layout);
    priced->job.training->micro_batch = micro_batch;
    priced->job.training->recompute = recomputes_[recompute];
    const StepWork& work =
        works_.at({&graph, micro_batch, recompute}, [&] { return work_of(graph, priced->job); });
    priced->prices = price_ops(work, *device.links, places);
    priced->model.emplace(PricedWork{work, priced->prices}, priced->job, *device.links);
    return priced;
  });
  return *made->model;
}

}  // namespace memest
