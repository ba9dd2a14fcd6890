// Step times of a search: kernels and messages are priced once for a GPU type, a graph and a
// micro-batch, and shared by all pipelines, replicas and shards over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "memest/time/step_time.hpp"
#include "plan/layouts/layout_forms.hpp"
#include "plan/layouts/memo.hpp"

namespace memest {

/// A GPU type with its laws; none where its steps have no time.
struct TimedDevice {
  DeviceOfSearch of;
  std::size_t index = 0;  ///< in the request
  std::unique_ptr<GpuLaws> laws;
  std::unique_ptr<Links> links;
};

/// Times of one job's layouts; several threads may ask at once.
class LayoutTimes {
 public:
  LayoutTimes(const Job& job, const std::vector<Recompute>& recomputes)
      : job_(job), recomputes_(recomputes) {}

  /// `graph` is of the whole model; `recompute` an index into the search's choices.
  const PricedModel& priced(const TimedDevice& device, const Graph& graph,
                            const Parallelism& layout,
                            std::pair<std::int64_t, std::size_t> micro_batch_and_recompute);

 private:
  struct Priced {
    Job job;
    std::vector<OpPrice> prices;
    std::optional<PricedModel> model;
  };
  using WorkKey = std::tuple<const Graph*, std::int64_t, std::size_t>;
  struct PriceKey {
    std::size_t device = 0;
    const Graph* graph = nullptr;
    std::int64_t micro_batch = 1;
    std::size_t recompute = 0;
    /// The nodes over which the ranks lie that an operation's messages go to.
    GroupPlace tensor;
    GroupPlace context;
    GroupPlace expert;
    bool alone = false;  ///< on one GPU, whose kernels no collective slows

    auto operator<=>(const PriceKey&) const = default;
  };

  const Job& job_;
  const std::vector<Recompute>& recomputes_;
  Memo<WorkKey, StepWork> works_;
  Memo<PriceKey, std::unique_ptr<Priced>> models_;
};

}  // namespace memest
